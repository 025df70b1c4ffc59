"""The bound on everything: how long, how large, how many. Each has a name and one home."""

QUEUE_CHARS_MAX = 128
KEY_CHARS_MAX = 500
KIND_CHARS_MAX = 200
DEDUPE_CHARS_MAX = 500
WORKER_CHARS_MAX = 200

PAYLOAD_BYTES_MAX = 1024 * 1024
PAYLOAD_NESTING_MAX = 200  # far from where Python's recursion ends
RESULT_BYTES_MAX = 1024 * 1024
ERROR_CHARS_MAX = 8_000
TRACEBACK_CHARS_MAX = 8_000  # its end: there is what went wrong
ERRORS_MAX = 20  # of one job's history: its last

PRIORITY_MIN = -100
PRIORITY_MAX = 100
ROUND_MAX = 1_000_000_000
ATTEMPTS_MAX = 1_000
AFTER_MAX = 50_000

DELAY_SECONDS_MAX = 10 * 366 * 86_400.0
TIMEOUT_SECONDS_MAX = 30 * 86_400.0
DEDUPE_SECONDS_MAX = 366 * 86_400.0
LEASE_SECONDS_MAX = 86_400.0
DURATION_SECONDS_MAX = 1e12  # of one attempt: finite is what matters

ENQUEUE_JOBS_MAX = 50_000
WAITS_MAX = 1_000_000  # of all jobs of a batch for others
AWAITED_SHOWN_MAX = 100  # of what one job waits for
ENQUEUE_CHARS_MAX = 64 * 1024 * 1024  # of all payloads of a batch
CLAIM_JOBS_MAX = 10_000
NOTE_CHARS_MAX = 500  # of how far a job is
SETTLE_CHARS_MAX = 32 * 1024 * 1024  # of all results and errors of a call
DEPTH_MAX = 10**12
STORED_MAX = 2**63 - 1  # of a token, a position, a lane: what both stores can compare with theirs
PID_MAX = 2**32
RUNNING_MAX = 2**31 - 1
RATE_MAX = 1_000_000
RATE_SECONDS_MAX = 366 * 86_400.0
PAGE_ROWS_MAX = 1_000
DUE_JOBS_MAX = 1_000  # delayed jobs that one claim moves into their lanes

SHARDS_MAX = 65_536  # of an executor
SLOTS_MAX = 10_000
QUEUE_SIZE_MAX = 10_000_000
WAIT_SECONDS_MAX = 86_400.0  # for room, or between two attempts in a process
HALTED_KEYS_MAX = 10_000
FAILED_KEYS_MAX = 10_000  # whose failures are kept for a barrier; the oldest are forgotten
SHARD_CACHE_KEYS_MAX = 8_192

ATTEMPTS_DEFAULT = 5
LEASE_SECONDS_DEFAULT = 30.0
DEDUPE_SECONDS_DEFAULT = 86_400.0
RESULT_SECONDS_DEFAULT = 86_400.0
KEEP_DONE_SECONDS_DEFAULT = 86_400.0
AGING_SECONDS_DEFAULT = 300.0

COME_BACK_SECONDS_MIN = 1  # what a full queue asks of those it refuses
COME_BACK_SECONDS_MAX = 300
COME_BACK_SECONDS_DEFAULT = 30  # when nothing was settled lately
DRAIN_MINUTES = 3  # what "lately" is: this minute and those before it
