//! Kafka's error codes.
//!
//! Names, numbers and which of them a client may simply try again are Kafka's; the texts are ours.

use core::fmt;

macro_rules! codes {
    ($($variant:ident = $code:literal $name:literal $retriable:literal $message:literal;)*) => {
        /// An error as clients see it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`: ", $message, ".")] $variant = $code,)*
        }

        /// All rows, ascending by code from -1 without a gap.
        const ROWS: &[Row] = &[
            $(Row { code: ErrorCode::$variant, name: $name, retriable: $retriable, message: $message },)*
        ];
    };
}

struct Row {
    code: ErrorCode,
    name: &'static str,
    retriable: bool,
    message: &'static str,
}

impl ErrorCode {
    /// The error with this number; `None` for one that Kafka 4.4 doesn't have.
    pub fn from_code(code: i16) -> Option<Self> {
        let index = usize::try_from(i32::from(code) + 1).ok()?;
        ROWS.get(index).map(|row| row.code)
    }

    /// Every error, ascending by number.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.code)
    }

    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Kafka's name, for example `UNKNOWN_TOPIC_OR_PARTITION`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether a client may send the same request again and hope.
    pub const fn is_retriable(self) -> bool {
        self.row().retriable
    }

    /// What it means, in a few words.
    pub const fn message(self) -> &'static str {
        self.row().message
    }

    const fn row(self) -> &'static Row {
        // The codes run from -1 up without a gap, which a test holds.
        &ROWS[(self as i16 + 1) as usize]
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.message())
    }
}

codes! {
    UnknownServerError = -1 "UNKNOWN_SERVER_ERROR" false "the server failed in a way it did not expect";
    None = 0 "NONE" false "no error";
    OffsetOutOfRange = 1 "OFFSET_OUT_OF_RANGE" false "the offset is below the start or beyond the end of the partition";
    CorruptMessage = 2 "CORRUPT_MESSAGE" true "a record batch does not match its checksum or is malformed";
    UnknownTopicOrPartition = 3 "UNKNOWN_TOPIC_OR_PARTITION" true "this server has no such topic or partition";
    InvalidFetchSize = 4 "INVALID_FETCH_SIZE" false "the fetch size is not acceptable";
    LeaderNotAvailable = 5 "LEADER_NOT_AVAILABLE" true "the partition has no leader at the moment";
    NotLeaderOrFollower = 6 "NOT_LEADER_OR_FOLLOWER" true "this server does not lead or follow the partition";
    RequestTimedOut = 7 "REQUEST_TIMED_OUT" true "the request was not done in time";
    BrokerNotAvailable = 8 "BROKER_NOT_AVAILABLE" false "the broker cannot be reached";
    ReplicaNotAvailable = 9 "REPLICA_NOT_AVAILABLE" true "the replica cannot be read at the moment";
    MessageTooLarge = 10 "MESSAGE_TOO_LARGE" false "a record batch is larger than the topic allows";
    StaleControllerEpoch = 11 "STALE_CONTROLLER_EPOCH" false "the controller has moved on to a later epoch";
    OffsetMetadataTooLarge = 12 "OFFSET_METADATA_TOO_LARGE" false "the metadata of a committed offset is too long";
    NetworkException = 13 "NETWORK_EXCEPTION" true "the connection broke before the answer came";
    CoordinatorLoadInProgress = 14 "COORDINATOR_LOAD_IN_PROGRESS" true "the coordinator is still reading its log";
    CoordinatorNotAvailable = 15 "COORDINATOR_NOT_AVAILABLE" true "there is no coordinator at the moment";
    NotCoordinator = 16 "NOT_COORDINATOR" true "this server is not the coordinator asked for";
    InvalidTopicException = 17 "INVALID_TOPIC_EXCEPTION" false "the topic's name is not allowed, or the topic is not for clients";
    RecordListTooLarge = 18 "RECORD_LIST_TOO_LARGE" false "the records are more than a segment can hold";
    NotEnoughReplicas = 19 "NOT_ENOUGH_REPLICAS" true "fewer replicas are in sync than the topic demands";
    NotEnoughReplicasAfterAppend = 20 "NOT_ENOUGH_REPLICAS_AFTER_APPEND" true "the records were appended, but too few replicas were in sync";
    InvalidRequiredAcks = 21 "INVALID_REQUIRED_ACKS" false "acks must be -1, 0 or 1";
    IllegalGeneration = 22 "ILLEGAL_GENERATION" false "the generation is not the group's current one";
    InconsistentGroupProtocol = 23 "INCONSISTENT_GROUP_PROTOCOL" false "the member's protocols have nothing in common with the group's";
    InvalidGroupId = 24 "INVALID_GROUP_ID" false "the group id is not acceptable";
    UnknownMemberId = 25 "UNKNOWN_MEMBER_ID" false "the group has no such member";
    InvalidSessionTimeout = 26 "INVALID_SESSION_TIMEOUT" false "the session timeout is outside what the server allows";
    RebalanceInProgress = 27 "REBALANCE_IN_PROGRESS" false "the group is rebalancing";
    InvalidCommitOffsetSize = 28 "INVALID_COMMIT_OFFSET_SIZE" false "the committed offsets are too large to be stored";
    TopicAuthorizationFailed = 29 "TOPIC_AUTHORIZATION_FAILED" false "not authorised for the topic";
    GroupAuthorizationFailed = 30 "GROUP_AUTHORIZATION_FAILED" false "not authorised for the group";
    ClusterAuthorizationFailed = 31 "CLUSTER_AUTHORIZATION_FAILED" false "not authorised for the cluster";
    InvalidTimestamp = 32 "INVALID_TIMESTAMP" false "a record's timestamp is outside what the topic allows";
    UnsupportedSaslMechanism = 33 "UNSUPPORTED_SASL_MECHANISM" false "the SASL mechanism is not enabled";
    IllegalSaslState = 34 "ILLEGAL_SASL_STATE" false "the request does not fit the state of the authentication";
    UnsupportedVersion = 35 "UNSUPPORTED_VERSION" false "the API or its version is not supported";
    TopicAlreadyExists = 36 "TOPIC_ALREADY_EXISTS" false "there is a topic of this name already";
    InvalidPartitions = 37 "INVALID_PARTITIONS" false "the number of partitions is not acceptable";
    InvalidReplicationFactor = 38 "INVALID_REPLICATION_FACTOR" false "there are not as many brokers as replicas wanted, or none are wanted";
    InvalidReplicaAssignment = 39 "INVALID_REPLICA_ASSIGNMENT" false "the replica assignment is not acceptable";
    InvalidConfig = 40 "INVALID_CONFIG" false "a config is unknown or its value not allowed";
    NotController = 41 "NOT_CONTROLLER" true "this server is not the controller";
    InvalidRequest = 42 "INVALID_REQUEST" false "the request contradicts the rules of its API";
    UnsupportedForMessageFormat = 43 "UNSUPPORTED_FOR_MESSAGE_FORMAT" false "the record format does not support this";
    PolicyViolation = 44 "POLICY_VIOLATION" false "a policy of the server forbids this";
    OutOfOrderSequenceNumber = 45 "OUT_OF_ORDER_SEQUENCE_NUMBER" false "the batch does not follow the producer's last one";
    DuplicateSequenceNumber = 46 "DUPLICATE_SEQUENCE_NUMBER" false "the batch was appended before";
    InvalidProducerEpoch = 47 "INVALID_PRODUCER_EPOCH" false "the producer's epoch is older than the latest";
    InvalidTxnState = 48 "INVALID_TXN_STATE" false "the transaction's state does not allow this";
    InvalidProducerIdMapping = 49 "INVALID_PRODUCER_ID_MAPPING" false "the producer id does not belong to the transactional id";
    InvalidTransactionTimeout = 50 "INVALID_TRANSACTION_TIMEOUT" false "the transaction timeout is above what the server allows";
    ConcurrentTransactions = 51 "CONCURRENT_TRANSACTIONS" true "the previous transaction of the transactional id is still ending";
    TransactionCoordinatorFenced = 52 "TRANSACTION_COORDINATOR_FENCED" false "the transaction coordinator has been replaced";
    TransactionalIdAuthorizationFailed = 53 "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" false "not authorised for the transactional id";
    SecurityDisabled = 54 "SECURITY_DISABLED" false "the server runs without security features";
    OperationNotAttempted = 55 "OPERATION_NOT_ATTEMPTED" false "not tried, since another part of the request failed";
    KafkaStorageError = 56 "KAFKA_STORAGE_ERROR" true "the server's disk failed";
    LogDirNotFound = 57 "LOG_DIR_NOT_FOUND" false "the server has no such log directory";
    SaslAuthenticationFailed = 58 "SASL_AUTHENTICATION_FAILED" false "authentication failed";
    UnknownProducerId = 59 "UNKNOWN_PRODUCER_ID" false "nothing is known of the producer id in this partition";
    ReassignmentInProgress = 60 "REASSIGNMENT_IN_PROGRESS" false "the partition is being reassigned";
    DelegationTokenAuthDisabled = 61 "DELEGATION_TOKEN_AUTH_DISABLED" false "delegation tokens are not enabled";
    DelegationTokenNotFound = 62 "DELEGATION_TOKEN_NOT_FOUND" false "there is no such delegation token";
    DelegationTokenOwnerMismatch = 63 "DELEGATION_TOKEN_OWNER_MISMATCH" false "the delegation token belongs to somebody else";
    DelegationTokenRequestNotAllowed = 64 "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" false "delegation tokens cannot be asked for on this connection";
    DelegationTokenAuthorizationFailed = 65 "DELEGATION_TOKEN_AUTHORIZATION_FAILED" false "not authorised for the delegation token";
    DelegationTokenExpired = 66 "DELEGATION_TOKEN_EXPIRED" false "the delegation token has expired";
    InvalidPrincipalType = 67 "INVALID_PRINCIPAL_TYPE" false "the principal's type is not supported";
    NonEmptyGroup = 68 "NON_EMPTY_GROUP" false "the group still has members";
    GroupIdNotFound = 69 "GROUP_ID_NOT_FOUND" false "there is no such group";
    FetchSessionIdNotFound = 70 "FETCH_SESSION_ID_NOT_FOUND" true "there is no such fetch session";
    InvalidFetchSessionEpoch = 71 "INVALID_FETCH_SESSION_EPOCH" true "the fetch session's epoch is not the next one";
    ListenerNotFound = 72 "LISTENER_NOT_FOUND" true "the leader has no listener of the kind that was used";
    TopicDeletionDisabled = 73 "TOPIC_DELETION_DISABLED" false "topics cannot be deleted on this server";
    FencedLeaderEpoch = 74 "FENCED_LEADER_EPOCH" true "the leader epoch is older than the partition's";
    UnknownLeaderEpoch = 75 "UNKNOWN_LEADER_EPOCH" true "the leader epoch is newer than the partition's";
    UnsupportedCompressionType = 76 "UNSUPPORTED_COMPRESSION_TYPE" false "the client's version does not know the records' compression";
    StaleBrokerEpoch = 77 "STALE_BROKER_EPOCH" false "the broker has registered again since";
    OffsetNotAvailable = 78 "OFFSET_NOT_AVAILABLE" true "the new leader does not know the end of the partition yet";
    MemberIdRequired = 79 "MEMBER_ID_REQUIRED" false "join again with the member id of this answer";
    PreferredLeaderNotAvailable = 80 "PREFERRED_LEADER_NOT_AVAILABLE" true "the preferred leader is not available";
    GroupMaxSizeReached = 81 "GROUP_MAX_SIZE_REACHED" false "the group has as many members as it may have";
    FencedInstanceId = 82 "FENCED_INSTANCE_ID" false "another member has taken over this group instance id";
    EligibleLeadersNotAvailable = 83 "ELIGIBLE_LEADERS_NOT_AVAILABLE" true "no replica that may lead is available";
    ElectionNotNeeded = 84 "ELECTION_NOT_NEEDED" true "the partition has the right leader already";
    NoReassignmentInProgress = 85 "NO_REASSIGNMENT_IN_PROGRESS" false "the partition is not being reassigned";
    GroupSubscribedToTopic = 86 "GROUP_SUBSCRIBED_TO_TOPIC" false "the group is reading this topic";
    InvalidRecord = 87 "INVALID_RECORD" false "a record does not pass the server's checks";
    UnstableOffsetCommit = 88 "UNSTABLE_OFFSET_COMMIT" true "a transaction that commits this offset is still open";
    ThrottlingQuotaExceeded = 89 "THROTTLING_QUOTA_EXCEEDED" true "a quota is used up for now";
    ProducerFenced = 90 "PRODUCER_FENCED" false "a newer producer uses the same transactional id";
    ResourceNotFound = 91 "RESOURCE_NOT_FOUND" false "there is no such resource";
    DuplicateResource = 92 "DUPLICATE_RESOURCE" false "the resource exists already";
    UnacceptableCredential = 93 "UNACCEPTABLE_CREDENTIAL" false "the credential does not meet the requirements";
    InconsistentVoterSet = 94 "INCONSISTENT_VOTER_SET" false "the voter sets do not agree";
    InvalidUpdateVersion = 95 "INVALID_UPDATE_VERSION" false "the version of the update is not the next one";
    FeatureUpdateFailed = 96 "FEATURE_UPDATE_FAILED" false "the features cannot be changed this way";
    PrincipalDeserializationFailure = 97 "PRINCIPAL_DESERIALIZATION_FAILURE" false "the forwarded principal cannot be read";
    SnapshotNotFound = 98 "SNAPSHOT_NOT_FOUND" false "there is no such snapshot";
    PositionOutOfRange = 99 "POSITION_OUT_OF_RANGE" false "the position is beyond the end of the snapshot";
    UnknownTopicId = 100 "UNKNOWN_TOPIC_ID" true "this server has no topic with this id";
    DuplicateBrokerRegistration = 101 "DUPLICATE_BROKER_REGISTRATION" false "a live broker is registered under this id";
    BrokerIdNotRegistered = 102 "BROKER_ID_NOT_REGISTERED" false "no broker is registered under this id";
    InconsistentTopicId = 103 "INCONSISTENT_TOPIC_ID" true "the topic id does not belong to the topic's name in this log";
    InconsistentClusterId = 104 "INCONSISTENT_CLUSTER_ID" false "the cluster id is another cluster's";
    TransactionalIdNotFound = 105 "TRANSACTIONAL_ID_NOT_FOUND" false "there is no such transactional id";
    FetchSessionTopicIdError = 106 "FETCH_SESSION_TOPIC_ID_ERROR" true "the fetch session mixes topic names and topic ids";
    IneligibleReplica = 107 "INELIGIBLE_REPLICA" false "the replica may not join the in-sync replicas";
    NewLeaderElected = 108 "NEW_LEADER_ELECTED" false "the change made another replica the leader";
    OffsetMovedToTieredStorage = 109 "OFFSET_MOVED_TO_TIERED_STORAGE" false "the offset is in tiered storage now";
    FencedMemberEpoch = 110 "FENCED_MEMBER_EPOCH" false "the member epoch is not one the member may have; it must join again";
    UnreleasedInstanceId = 111 "UNRELEASED_INSTANCE_ID" false "another live member has this group instance id";
    UnsupportedAssignor = 112 "UNSUPPORTED_ASSIGNOR" false "the server has no such assignor";
    StaleMemberEpoch = 113 "STALE_MEMBER_EPOCH" false "the member epoch is older than the member's current one";
    MismatchedEndpointType = 114 "MISMATCHED_ENDPOINT_TYPE" false "the request belongs on another kind of endpoint";
    UnsupportedEndpointType = 115 "UNSUPPORTED_ENDPOINT_TYPE" false "this kind of endpoint is not supported";
    UnknownControllerId = 116 "UNKNOWN_CONTROLLER_ID" false "there is no such controller";
    UnknownSubscriptionId = 117 "UNKNOWN_SUBSCRIPTION_ID" false "the telemetry subscription is not the current one";
    TelemetryTooLarge = 118 "TELEMETRY_TOO_LARGE" false "the telemetry is larger than the server accepts";
    InvalidRegistration = 119 "INVALID_REGISTRATION" false "the registration is not acceptable";
    TransactionAbortable = 120 "TRANSACTION_ABORTABLE" false "the transaction failed and must be aborted";
    InvalidRecordState = 121 "INVALID_RECORD_STATE" false "the record's delivery state does not allow this";
    ShareSessionNotFound = 122 "SHARE_SESSION_NOT_FOUND" true "there is no such share session";
    InvalidShareSessionEpoch = 123 "INVALID_SHARE_SESSION_EPOCH" true "the share session's epoch is not the next one";
    FencedStateEpoch = 124 "FENCED_STATE_EPOCH" false "the share state epoch is not the current one";
    InvalidVoterKey = 125 "INVALID_VOTER_KEY" false "the voter's id and directory do not belong together";
    DuplicateVoter = 126 "DUPLICATE_VOTER" false "the voter is in the set already";
    VoterNotFound = 127 "VOTER_NOT_FOUND" false "the voter is not in the set";
    InvalidRegularExpression = 128 "INVALID_REGULAR_EXPRESSION" false "the regular expression cannot be read";
    RebootstrapRequired = 129 "REBOOTSTRAP_REQUIRED" false "the client must start again from its bootstrap addresses";
    StreamsInvalidTopology = 130 "STREAMS_INVALID_TOPOLOGY" false "the topology is not a valid one";
    StreamsInvalidTopologyEpoch = 131 "STREAMS_INVALID_TOPOLOGY_EPOCH" false "the topology epoch is not acceptable";
    StreamsTopologyFenced = 132 "STREAMS_TOPOLOGY_FENCED" false "the topology is older than the group's";
    ShareSessionLimitReached = 133 "SHARE_SESSION_LIMIT_REACHED" true "the server has as many share sessions as it may have";
    GroupDeletionFailed = 134 "GROUP_DELETION_FAILED" false "the group could not be deleted";
    StreamsTopologyDescriptionUpdateFailed = 135 "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED" false "the description of the topology could not be stored";
    ControllerIdNotRegistered = 136 "CONTROLLER_ID_NOT_REGISTERED" false "no controller is registered under this id";
}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, ROWS};

    #[test]
    fn codes_run_up_without_a_gap() {
        for (row, code) in ROWS.iter().zip(-1i16..) {
            assert_eq!(row.code.code(), code, "{}", row.name);
            assert_eq!(ErrorCode::from_code(code), Some(row.code));
            assert_eq!(row.code.name(), row.name);
        }
        assert_eq!(ErrorCode::from_code(-2), None);
        assert_eq!(ErrorCode::from_code(ROWS.len() as i16), None);
    }
}
