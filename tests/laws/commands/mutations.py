"""Mutants of the product, each with the laws that must fail."""

from typing import NamedTuple


class LawMutation(NamedTuple):
    """A mutant: the file of the package, the text, its replacement, and the laws that must fail."""

    name: str
    file: str
    text: str
    slip: str
    laws: str
    seeds: tuple[int, ...] = ()
    """Seeds of lives that are known to fail; they are checked first."""


CONNECTORS, TASKS = "core/decide/connectors.py", "core/decide/task_configs.py"
LIFECYCLE, RESTARTS = "core/decide/target_states.py", "core/decide/restarts.py"
OFFSETS, SOURCES, SINKS = (
    f"core/decide/{name}.py" for name in ("offsets", "source_offsets", "sink_offsets")
)
CREATE_WITH_OFFSETS, TOPICS = "core/decide/create_with_offsets.py", "core/decide/topics.py"
FOLD = "core/fold/config.py"
PLAN_EXECUTION, CONTROLLER = "controller/plan_execution.py", "controller/controller.py"

MUTATIONS = [
    # --- creating -----------------------------------------------------------------------------
    LawMutation(
        "a removed connector stays",
        FOLD,
        "            self._connectors.drop(name)\n",
        "",
        "C1 D1",
        (215,),
    ),
    LawMutation(
        "config before target state",
        CONNECTORS,
        "    records: dict[str, ConfigRecord] = {}\n    orphan",
        "    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, config)}\n"
        "    orphan",
        "C2",
        (140,),
    ),
    LawMutation(
        "answered before the last step",
        PLAN_EXECUTION,
        "for step in plan.steps:",
        "for step in plan.steps[:-1]:",
        "C3 U3 T5 what_was_answered_is_there",
        (383, 68, 264),
    ),
    LawMutation(
        "an orphan target state is inherited",
        CONNECTORS,
        "    orphan = name in",
        "    orphan = False and name in",
        "C4",
        (288,),
    ),
    LawMutation(
        "no target state by default",
        FOLD,
        "if self.profile.target_states and name not in self._targets.items:",
        "if False:",
        "C5",
        (383,),
    ),
    LawMutation(
        "created before its offsets are set",
        CREATE_WITH_OFFSETS,
        "        *_described(SET, command, store.write_after_wipe(requested)),\n"
        "        *_creation(state, command, config, context),\n",
        "        *_creation(state, command, config, context),\n"
        "        *_described(SET, command, store.write_after_wipe(requested)),\n",
        "N1 N5",
        (338,),
    ),
    LawMutation(
        "offsets of an earlier connector are not wiped",
        CREATE_WITH_OFFSETS,
        "        *_described(WIPE, command, store.wipe_before_creation(stored)),\n",
        "",
        "N1",
        (347,),
    ),
    LawMutation(
        "a failed action counts as an invalid request",
        PLAN_EXECUTION,
        "    return Rejected(Reason.FAILED, _reason(step, failure))\n\n\ndef _reason",
        "    return Rejected(Reason.INVALID, _reason(step, failure))\n\n\ndef _reason",
        "N2 G3",
        (353,),
    ),
    LawMutation(
        "a failed creation is not undone",
        PLAN_EXECUTION,
        "in reversed(begun) if step.undo is not None)",
        "in reversed(begun) if False)",
        "N3",
        (338,),
    ),
    LawMutation(
        "a half-done wipe is not completed",
        SOURCES,
        "return tuple(msgspec.structs.replace(step, undo=step) for step in self.wipe(stored))",
        "return self.wipe(stored)",
        "N3",
        (198,),
    ),
    LawMutation(
        "recovery undoes only the steps that it has repeated",
        PLAN_EXECUTION,
        "plan.steps if accepted else [*finished, step]",
        "[*finished, step]",
        "N3",
        (364,),
    ),
    # --- configs and tasks --------------------------------------------------------------------
    LawMutation(
        "another config starts the connector",
        CONNECTORS,
        "    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, config)}\n"
        "    if context.profile.writes_tasks",
        "    records: dict[str, ConfigRecord] = {COMMIT_POINT: ConnectorConfig(name, config)}\n"
        '    records["state"] = TargetState(name, Target.STARTED)\n'
        "    if context.profile.writes_tasks",
        "U1",
        (254,),
    ),
    LawMutation(
        "one task fewer with another config",
        CONNECTORS,
        "for task in state.config.task_ids(name)]",
        "for task in state.config.task_ids(name)[:-1]]",
        "U2",
        (131,),
    ),
    LawMutation(
        "a patch removes nothing",
        CONNECTORS,
        "patched_hash_map(present, command.patch)",
        "{**command.patch, **present}",
        "U4",
        (150,),
    ),
    LawMutation(
        "a commit may count missing tasks",
        FOLD,
        "            self._inconsistent.writable()[name] = True\n",
        "            pass\n",
        "P1",
        (132,),
    ),
    LawMutation(
        "older task configs win",
        FOLD,
        "{**self._tasks.items.get(name, {}), **deferred}",
        "{**deferred, **self._tasks.items.get(name, {})}",
        "P2",
        (259,),
    ),
    LawMutation(
        "a stopped connector gets tasks",
        TASKS,
        "if command.configs and state.config.targets.get(name) is Target.STOPPED:",
        "if False:",
        "P3",
        (252,),
    ),
    LawMutation(
        "generations begin anew",
        FOLD,
        "generations.get(name, -1) + 1",
        "(0 if name in generations else 1)",
        "P5",
        (277,),
    ),
    # --- pause, resume, stop, delete ----------------------------------------------------------
    LawMutation(
        "target states need a config",
        FOLD,
        "        self._targets.writable()[name] = record.state\n",
        "        if configured:\n            self._targets.writable()[name] = record.state\n",
        "S1 C2",
        (140,),
    ),
    LawMutation(
        "old workers read STOPPED",
        "core/codec/config.py",
        "nearest = Target.PAUSED if state is Target.STOPPED else state",
        "nearest = state",
        "S2",
        (43,),
    ),
    LawMutation(
        "paused twice is resumed",
        LIFECYCLE,
        "    record = TargetState(command.connector, target)\n",
        "    there = state.config.targets.get(command.connector) is target\n"
        "    other = Target.STARTED if target is Target.PAUSED else Target.PAUSED\n"
        "    record = TargetState(command.connector, other if there else target)\n",
        "S3",
        (132,),
    ),
    LawMutation(
        "pausing takes the tasks",
        LIFECYCLE,
        '(config_step(state, "state", [record], context),)',
        '(config_step(state, "state", [TaskCommit(command.connector, 0), record], context),)',
        "S4 U2",
        (132, 277),
    ),
    LawMutation(
        "a start leaves out the last record",
        "projection/loader.py",
        "    await load_topics(log, fold, [fold.topics.config], ends, observer)\n",
        "    fewer = [max(0, end - 1) for end in ends[fold.topics.config]]\n"
        "    ends = {**ends, fold.topics.config: fewer}\n"
        "    await load_topics(log, fold, [fold.topics.config], ends, observer)\n",
        "S5",
        (30,),
    ),
    LawMutation(
        "stopped before the tasks are gone",
        LIFECYCLE,
        '            config_step(state, "tasks", [TaskCommit(name, 0)], context),\n'
        '            config_step(state, "state", [TargetState(name, Target.STOPPED)], context),\n',
        '            config_step(state, "state", [TargetState(name, Target.STOPPED)], context),\n'
        '            config_step(state, "tasks", [TaskCommit(name, 0)], context),\n',
        "T1",
        (78,),
    ),
    LawMutation(
        "stopped twice is paused",
        LIFECYCLE,
        '    return Plan(\n        (\n            config_step(state, "tasks"',
        "    if state.config.targets.get(name) is Target.STOPPED:\n"
        "        return _target_plan(state, command, Target.PAUSED, context)\n"
        '    return Plan(\n        (\n            config_step(state, "tasks"',
        "T2",
        (15,),
    ),
    LawMutation(
        "stopping drops the config",
        FOLD,
        "        self._targets.writable()[name] = record.state\n",
        "        self._targets.writable()[name] = record.state\n"
        "        if record.state is Target.STOPPED:\n            self._connectors.drop(name)\n",
        "T3",
        (252,),
    ),
    LawMutation(
        "without tasks it counts as stopped",
        LIFECYCLE,
        '    return Plan(\n        (\n            config_step(state, "tasks"',
        "    if state.config.task_counts.get(name) == 0:\n        return Plan(())\n"
        '    return Plan(\n        (\n            config_step(state, "tasks"',
        "T4 G2",
        (78,),
    ),
    LawMutation(
        "the target state is deleted first",
        CONNECTORS,
        "{COMMIT_POINT: ConnectorConfig(name, None)}\n",
        '{"state": TargetState(name, None), COMMIT_POINT: ConnectorConfig(name, None)}\n',
        "D1",
        (215,),
    ),
    LawMutation(
        "tasks outlive their connector",
        FOLD,
        "if self.profile.removal_drops_tasks:",
        "if False:",
        "D2",
        (98,),
    ),
    LawMutation(
        "producers to be fenced are forgotten",
        FOLD,
        "            self._connectors.drop(name)\n",
        "            self._connectors.drop(name)\n            self._fenced_counts.drop(name)\n",
        "D3",
        (81,),
    ),
    LawMutation(
        "a missing connector is deleted",
        CONNECTORS,
        "    if name not in state.config.connectors:\n        return not_found(command)\n"
        "    records",
        "    records",
        "D4",
        (301,),
    ),
    LawMutation(
        "offsets go with their connector",
        CONNECTORS,
        "    return Plan(privileged_steps(state, records, COMMIT_POINT, context), commit_point",
        "    from controlplane.core.plan import Draft\n"
        "    known = state.offsets.get(state.topics.offsets)\n"
        "    gone = [key for key in known.values if name.encode() in key] if known else []\n"
        "    drafts = tuple(Draft(state.topics.offsets, key, None) for key in gone)\n"
        "    steps = (*privileged_steps(state, records, COMMIT_POINT, context), "
        'Step("wipe", drafts))\n'
        "    return Plan(steps, commit_point",
        "D6 G5",
        (82,),
    ),
    # --- restart ------------------------------------------------------------------------------
    LawMutation(
        "restarting starts",
        RESTARTS,
        '    steps = privileged_steps(state, {"restart": record}, "restart", context)\n',
        "    from controlplane.core.records import Target, TargetState\n"
        '    records = {"state": TargetState(name, Target.STARTED), "restart": record}\n'
        '    steps = privileged_steps(state, records, "restart", context)\n',
        "R1 R6",
        (233, 371),
    ),
    LawMutation(
        "restart requests older than the start are obeyed",
        FOLD,
        '        return self._announce(ListenerCall("restart", record.connector, record))',
        '        call = ListenerCall("restart", record.connector)\n'
        "        return RecordFate(FateKind.ACCEPTED, calls=(call,))",
        "R3",
        (380,),
    ),
    LawMutation(
        "restarts are repeated",
        "core/decide/recovery.py",
        "if isinstance(command, _EVENTS):",
        "if False:",
        "R3",
        (232,),
    ),
    LawMutation(
        "instances that have not failed are restarted",
        RESTARTS,
        "if not command.only_failed or status.state is State.FAILED",
        "if status.state",
        "R4",
        (371,),
    ),
    # --- offsets ------------------------------------------------------------------------------
    LawMutation(
        "only the first offset is written",
        SOURCES,
        "ordered = ordered_for_flush(self._name, offsets, self._profile)",
        "ordered = ordered_for_flush(self._name, offsets, self._profile)[:1]",
        "O1",
        (267,),
    ),
    LawMutation(
        "removed from the connector's own topic first",
        "core/releases/behaviours.py",
        'Behaviour("writes_removals_first", "KAFKA-15018", _from("3.8.0"))',
        'Behaviour("writes_removals_first", "KAFKA-15018", _from("3.8.0"), kip=False)',
        "O3",
        (154,),
    ),
    LawMutation(
        "nothing to reset is an error",
        OFFSETS,
        "    if isinstance(stored, Rejected | AskGroup):\n        return stored\n"
        "    hook_result = hook_answer(context, 0, _question(state, command, stored))",
        "    if isinstance(stored, Rejected | AskGroup):\n        return stored\n"
        '    if not stored:\n        return Rejected(Reason.INVALID, "nothing")\n'
        "    hook_result = hook_answer(context, 0, _question(state, command, stored))",
        "O4",
        (291,),
    ),
    LawMutation(
        "the hook is called before the connector is checked",
        OFFSETS,
        "    store = _store_of_stopped(state, command, context)\n"
        "    if isinstance(store, Rejected | AskRemoteOffsets):\n        return store\n"
        "    requested",
        "    store = _store_of_stopped(state, command, context)\n"
        "    if isinstance(store, Rejected) and not context.hooks:\n"
        "        config = state.config.connectors.get(command.connector, {})\n"
        "        return AskHook(command.connector, config, ())\n"
        "    if isinstance(store, Rejected | AskRemoteOffsets):\n        return store\n"
        "    requested",
        "O5",
        (239,),
    ),
    LawMutation(
        "offsets of running connectors are changed",
        OFFSETS,
        "if not stopped or state.config.task_counts.get(name, 0) != 0:",
        "if False:",
        "O6 G5",
        (109,),
    ),
    LawMutation(
        "tasks are always fenced",
        SOURCES,
        "        if not self._state.exactly_once:\n            return ()\n",
        "",
        "O7",
        (199,),
    ),
    LawMutation(
        "keys are always those of Java",
        SOURCES,
        "keys = LoggedKeys if self._profile.writes_log_key else JavaKeys",
        "keys = JavaKeys",
        "O9",
        (221,),
    ),
    # --- active topics ------------------------------------------------------------------------
    LawMutation(
        "topics of all connectors are reset",
        TOPICS,
        "    active_topics = sorted(state.status.active_topics.get(name, {}).items())\n",
        "    everybodys = state.status.active_topics.values()\n"
        "    active_topics = [topic for topics in everybodys for topic in topics.items()]\n",
        "A3 G7",
        (20,),
    ),
    LawMutation(
        "a topic that is used twice is gone",
        "core/fold/status.py",
        "        if activity is not None:\n",
        "        if activity is not None and topic not in self._topics.items.get(name, {}):\n",
        "A4",
        (380,),
    ),
    LawMutation(
        "no topics to reset is an error",
        TOPICS,
        "        return Plan(())\n",
        '        return Rejected(Reason.NO_SUCH_CONNECTOR, "no topics")\n',
        "A5",
        (215,),
    ),
    # --- everything ---------------------------------------------------------------------------
    LawMutation(
        "tasks are not committed again after a new config",
        CONNECTORS,
        "if context.profile.writes_tasks_when_reconfigured and not _runs(state, name):",
        "if False:",
        "G1",
        (131,),
    ),
    LawMutation(
        "old writers are not fenced",
        "logs/memory.py",
        "        check_epoch(epoch, self._epoch)\n",
        "",
        "G4",
        (108,),
    ),
    LawMutation(
        "a task makes a connector",
        FOLD,
        "        self._deferred.put(record.connector, record.task, record.properties)\n",
        "        self._deferred.put(record.connector, record.task, record.properties)\n"
        "        self._connectors.writable().setdefault(record.connector, {})\n",
        "G6",
        (342,),
    ),
    LawMutation(
        "a name ends at its first dash",
        "core/codec/config.py",
        '"-".join(parts[prefix_parts:-1])',
        "parts[prefix_parts]",
        "G7",
        (379,),
    ),
    # --- crashes ------------------------------------------------------------------------------
    LawMutation(
        "recovery does nothing",
        "core/decide/recovery.py",
        "    return Recovery(RecoveryKind.REPEATED, plan)",
        "    return Recovery(RecoveryKind.REPEATED, Plan((), plan.outcome))",
        "N4 all_or_nothing",
        (78, 113),
    ),
    LawMutation(
        "unfinished commands are not ended",
        CONTROLLER,
        "        await self._unfinished.end_all()\n",
        "",
        "nothing_is_unfinished all_or_nothing",
        (252, 78),
    ),
    LawMutation(
        "idempotency keys are not known",
        CONTROLLER,
        "        if trace is None or trace.accepted is None:\n",
        "        if trace is not None or trace is None:\n",
        "same_key_same_answer",
        (253,),
    ),
]
