"""Facts of a state that depend on the order between partitions, as tables have them."""

from collections.abc import Mapping

from controlplane.core import views
from controlplane.core.state import ClusterState
from controlplane.core.text.safe_text import utf8_text
from replay.engine.states.order_marks import OffsetMarks, OrderMarks
from replay.tables.state_tables import OrderFacts

MarksByRelease = Mapping[str, OrderFacts]
"""Facts of one cluster by release."""


def order_facts(
    marks: OrderMarks, state: ClusterState, of_offsets: OrderFacts | None = None
) -> OrderFacts:
    """Facts of a state; `of_offsets` are those of offsets that another job has folded."""
    names = {*views.connectors(state), *(name for name, _ in views.half_done(state))}
    facts = {
        utf8_text(name): list(sentences)
        for name, sentences in marks.of(state.profile, sorted(names)).items()
    }
    for name, sentences in (of_offsets or {}).items():
        facts.setdefault(name, []).extend(sentences)
    return facts


def facts_of_offsets(marks: Mapping[str, OffsetMarks]) -> OrderFacts:
    """Facts by connector, in the order of their first records."""
    return {connector: of_offsets.sentences for connector, of_offsets in marks.items()}
