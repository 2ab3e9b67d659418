"""Error codes of Kafka's protocol, each with its name and one sentence for the user.

Source: `org.apache.kafka.common.protocol.Errors`. aiokafka knows only the codes up to 79.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class CodeMeaning(NamedTuple):
    """Error code of Kafka's protocol, in words for the user."""

    name: str
    """Kafka's name of the code."""
    sentence: str
    """Cause and, where the user can act, the remedy; no capital letter, no full stop."""


class ErrorCode(IntEnum):
    """Codes on which this program branches."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_PRODUCER_EPOCH = 47
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    PRODUCER_FENCED = 90


def described(code: int, right: str = "") -> str:
    """Return sentence, name and number of a code for a message.

    `right`: ACL that a refused user lacks, such as `DESCRIBE on group g`.
    """
    error = ERRORS.get(code)
    if error is None:
        return f"the broker answered with error code {code}, which this program does not know"
    lacks = right and code in _REFUSED_ACCESS
    sentence = f"allow this user {right}" if lacks else error.sentence
    return f"{sentence} ({error.name}, code {code})"


_REFUSED_ACCESS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


_TABLE: tuple[tuple[int, str, str], ...] = (
    (-1, "UNKNOWN_SERVER_ERROR", "the broker failed unexpectedly: look into its log"),
    (0, "NONE", "there is no error"),
    (1, "OFFSET_OUT_OF_RANGE", "the partition has no record at this offset"),
    (2, "CORRUPT_MESSAGE", "the checksum of a record batch is wrong"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic or partition: check the name"),
    (4, "INVALID_FETCH_SIZE", "the requested fetch size is invalid"),
    (5, "LEADER_NOT_AVAILABLE", "the partition has no leader at the moment: try again"),
    (6, "NOT_LEADER_OR_FOLLOWER", "another broker leads the partition now: try again"),
    (7, "REQUEST_TIMED_OUT", "the broker did not finish the request in time: try again"),
    (8, "BROKER_NOT_AVAILABLE", "the broker is not available: try again"),
    (9, "REPLICA_NOT_AVAILABLE", "the broker has no replica of the partition: try again"),
    (10, "MESSAGE_TOO_LARGE", "the batch is larger than the topic's max.message.bytes"),
    (11, "STALE_CONTROLLER_EPOCH", "the controller was replaced meanwhile: try again"),
    (12, "OFFSET_METADATA_TOO_LARGE", "the metadata of a committed offset is too long"),
    (13, "NETWORK_EXCEPTION", "the connection broke before the answer arrived: try again"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", "the coordinator is still loading its state: try again"),
    (15, "COORDINATOR_NOT_AVAILABLE", "the coordinator is not available: try again"),
    (16, "NOT_COORDINATOR", "another broker is the coordinator now: try again"),
    (17, "INVALID_TOPIC_EXCEPTION", "no topic can have this name, or it is reserved: check it"),
    (18, "RECORD_LIST_TOO_LARGE", "the batch is larger than a segment of the topic"),
    (19, "NOT_ENOUGH_REPLICAS", "fewer replicas than min.insync.replicas are in sync"),
    (
        20,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "the records were written to fewer replicas than min.insync.replicas",
    ),
    (21, "INVALID_REQUIRED_ACKS", "the value of acks is invalid"),
    (22, "ILLEGAL_GENERATION", "the group has rebalanced meanwhile: join it again"),
    (23, "INCONSISTENT_GROUP_PROTOCOL", "the group uses another protocol"),
    (24, "INVALID_GROUP_ID", "no group can have this id: check it"),
    (25, "UNKNOWN_MEMBER_ID", "the group has members, and the request comes from none of them"),
    (26, "INVALID_SESSION_TIMEOUT", "the broker does not allow this session time-out"),
    (27, "REBALANCE_IN_PROGRESS", "the group is rebalancing: try again"),
    (28, "INVALID_COMMIT_OFFSET_SIZE", "the offsets are too large to be committed at once"),
    (29, "TOPIC_AUTHORIZATION_FAILED", "this user has no access to the topic: add an ACL for it"),
    (30, "GROUP_AUTHORIZATION_FAILED", "this user has no access to the group: add an ACL for it"),
    (31, "CLUSTER_AUTHORIZATION_FAILED", "this user may not do this to the cluster: add an ACL"),
    (32, "INVALID_TIMESTAMP", "the timestamp of a record is outside of the topic's limits"),
    (33, "UNSUPPORTED_SASL_MECHANISM", "the broker lacks this mechanism: check sasl.mechanism"),
    (34, "ILLEGAL_SASL_STATE", "the broker expects another login: check security.protocol"),
    (35, "UNSUPPORTED_VERSION", "the broker does not support this version of the request"),
    (36, "TOPIC_ALREADY_EXISTS", "there is such a topic already"),
    (37, "INVALID_PARTITIONS", "the number of partitions is invalid"),
    (
        38,
        "INVALID_REPLICATION_FACTOR",
        "the cluster has too few brokers for so many replicas: lower the replication factor",
    ),
    (39, "INVALID_REPLICA_ASSIGNMENT", "the replicas cannot be placed like this"),
    (40, "INVALID_CONFIG", "the broker refuses a setting of the topic: check its value"),
    (41, "NOT_CONTROLLER", "another broker is the controller now: try again"),
    (42, "INVALID_REQUEST", "the broker finds the request invalid: look into its log"),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "the topic's message format is too old for this"),
    (44, "POLICY_VIOLATION", "a policy of the cluster forbids it"),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "a batch of this producer is missing before this one"),
    (46, "DUPLICATE_SEQUENCE_NUMBER", "the broker has this batch already"),
    (47, "INVALID_PRODUCER_EPOCH", "a newer producer has the same transactional id"),
    (48, "INVALID_TXN_STATE", "the transaction is in no state that allows this"),
    (49, "INVALID_PRODUCER_ID_MAPPING", "the transactional id belongs to another producer"),
    (50, "INVALID_TRANSACTION_TIMEOUT", "the time-out exceeds transaction.max.timeout.ms"),
    (51, "CONCURRENT_TRANSACTIONS", "the previous transaction of this id is still ending"),
    (52, "TRANSACTION_COORDINATOR_FENCED", "the transaction coordinator was replaced"),
    (
        53,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "this user has no access to the transactional id: add an ACL for it",
    ),
    (54, "SECURITY_DISABLED", "the cluster has no authorizer"),
    (55, "OPERATION_NOT_ATTEMPTED", "the broker did not try this: another part failed first"),
    (56, "KAFKA_STORAGE_ERROR", "a disk of the broker fails: look into its log"),
    (57, "LOG_DIR_NOT_FOUND", "the broker has no such log directory"),
    (58, "SASL_AUTHENTICATION_FAILED", "the broker refuses the name or the password: check them"),
    (59, "UNKNOWN_PRODUCER_ID", "the broker no longer knows this producer"),
    (60, "REASSIGNMENT_IN_PROGRESS", "the partitions are being moved"),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", "the cluster has no delegation tokens"),
    (62, "DELEGATION_TOKEN_NOT_FOUND", "there is no such delegation token"),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", "the delegation token belongs to another user"),
    (
        64,
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        "delegation tokens need a connection with SASL or TLS",
    ),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "this user has no access to the token"),
    (66, "DELEGATION_TOKEN_EXPIRED", "the delegation token has expired"),
    (67, "INVALID_PRINCIPAL_TYPE", "the type of the principal is not supported"),
    (68, "NON_EMPTY_GROUP", "the group has members: stop its consumers, and try again"),
    (69, "GROUP_ID_NOT_FOUND", "there is no such group"),
    (70, "FETCH_SESSION_ID_NOT_FOUND", "the broker has forgotten the fetch session"),
    (71, "INVALID_FETCH_SESSION_EPOCH", "the epoch of the fetch session is invalid"),
    (72, "LISTENER_NOT_FOUND", "the leader has no such listener yet: try again"),
    (73, "TOPIC_DELETION_DISABLED", "the cluster does not delete topics: delete.topic.enable"),
    (74, "FENCED_LEADER_EPOCH", "the leader was elected anew: try again"),
    (75, "UNKNOWN_LEADER_EPOCH", "the broker does not know this leader yet: try again"),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", "the broker does not support this compression"),
    (77, "STALE_BROKER_EPOCH", "the broker has been restarted since"),
    (78, "OFFSET_NOT_AVAILABLE", "the new leader does not know the end offset yet: try again"),
    (79, "MEMBER_ID_REQUIRED", "the group member must join with an id"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", "the preferred leader is not available"),
    (81, "GROUP_MAX_SIZE_REACHED", "the group has as many members as the broker allows"),
    (82, "FENCED_INSTANCE_ID", "another group member has the same group.instance.id"),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", "no replica can become the leader"),
    (84, "ELECTION_NOT_NEEDED", "the partition needs no election"),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", "no partition is being moved"),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", "the group has members that consume the topic: stop them"),
    (87, "INVALID_RECORD", "the broker refuses a record: a compacted topic needs keys"),
    (88, "UNSTABLE_OFFSET_COMMIT", "an open transaction has yet to commit offsets: try again"),
    (89, "THROTTLING_QUOTA_EXCEEDED", "the quota for such requests is used up: try again later"),
    (90, "PRODUCER_FENCED", "a newer producer has the same transactional id"),
    (91, "RESOURCE_NOT_FOUND", "the resource does not exist"),
    (92, "DUPLICATE_RESOURCE", "the resource exists already"),
    (93, "UNACCEPTABLE_CREDENTIAL", "the broker refuses the credential"),
    (94, "INCONSISTENT_VOTER_SET", "the controllers disagree on their voters"),
    (95, "INVALID_UPDATE_VERSION", "the version of the update is invalid"),
    (96, "FEATURE_UPDATE_FAILED", "the controller could not update the features"),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", "the controller could not read the principal"),
    (98, "SNAPSHOT_NOT_FOUND", "the snapshot does not exist"),
    (99, "POSITION_OUT_OF_RANGE", "the position is outside of the snapshot"),
    (100, "UNKNOWN_TOPIC_ID", "the broker does not know the topic's id yet: try again"),
    (101, "DUPLICATE_BROKER_REGISTRATION", "a broker with this id is registered already"),
    (102, "BROKER_ID_NOT_REGISTERED", "no broker with this id is registered"),
    (103, "INCONSISTENT_TOPIC_ID", "the topic was deleted and created again"),
    (104, "INCONSISTENT_CLUSTER_ID", "the broker belongs to another cluster"),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", "the coordinator does not know this transactional id"),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", "the fetch session mixes topic names and ids"),
    (107, "INELIGIBLE_REPLICA", "a replica cannot join those in sync"),
    (108, "NEW_LEADER_ELECTED", "the change made another replica the leader"),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", "the offset lies in tiered storage"),
    (110, "FENCED_MEMBER_EPOCH", "the coordinator has fenced the group member"),
    (111, "UNRELEASED_INSTANCE_ID", "another group member still has this instance id"),
    (112, "UNSUPPORTED_ASSIGNOR", "the coordinator does not know the assignor"),
    (113, "STALE_MEMBER_EPOCH", "the group has members, and the request comes from none of them"),
    (
        114,
        "MISMATCHED_ENDPOINT_TYPE",
        "a broker was expected at the address of a controller, or the reverse",
    ),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", "this type of address is not supported yet"),
    (116, "UNKNOWN_CONTROLLER_ID", "there is no controller with this id"),
    (117, "UNKNOWN_SUBSCRIPTION_ID", "the subscription for client metrics is out of date"),
    (118, "TELEMETRY_TOO_LARGE", "the client metrics are larger than the broker allows"),
    (119, "INVALID_REGISTRATION", "the controller refuses the registration of the broker"),
    (120, "TRANSACTION_ABORTABLE", "the transaction can only be aborted: try it again"),
)

ERRORS: Mapping[int, CodeMeaning] = {
    code: CodeMeaning(name, sentence) for code, name, sentence in _TABLE
}
"""Meanings by code, up to 120; a later code is only shown as a number."""
