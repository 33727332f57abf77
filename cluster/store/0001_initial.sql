-- Times are milliseconds since 1970-01-01 UTC. "worker" is a rank; -1 stands for the job as a whole.

CREATE TABLE jobs (
  number      INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of submission, the list's cursor
  id          TEXT NOT NULL UNIQUE,
  name        TEXT NOT NULL,
  state       INTEGER NOT NULL,
  phase       INTEGER NOT NULL,
  reason      TEXT NOT NULL,
  spec        TEXT NOT NULL,
  priority    INTEGER NOT NULL,
  restarts    INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  started_at  INTEGER,
  ended_at    INTEGER,
  step        INTEGER NOT NULL,
  steps_total INTEGER NOT NULL,
  summary     TEXT NOT NULL
);
CREATE INDEX jobs_by_state ON jobs (state, number);

CREATE TABLE idempotency_keys (
  key       TEXT PRIMARY KEY,
  job       TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  body_hash TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_job ON idempotency_keys (job);

CREATE TABLE workers (
  number     INTEGER PRIMARY KEY AUTOINCREMENT,  -- the greatest of a rank is its latest incarnation
  id         TEXT NOT NULL UNIQUE,
  job        TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  rank       INTEGER NOT NULL,
  node_id    TEXT NOT NULL,
  node       TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  state      INTEGER NOT NULL,
  exit_code  INTEGER,
  signal     INTEGER,
  started_at INTEGER,
  ended_at   INTEGER,
  step       INTEGER NOT NULL,
  figures    TEXT NOT NULL
);
CREATE INDEX workers_by_job ON workers (job, rank, number);

CREATE TABLE nodes (
  id        TEXT PRIMARY KEY,
  name      TEXT NOT NULL,
  host      TEXT NOT NULL,
  state     INTEGER NOT NULL,
  lease_id  INTEGER NOT NULL,
  resources TEXT NOT NULL,
  labels    TEXT NOT NULL,
  version   TEXT NOT NULL,
  pid       INTEGER NOT NULL,
  joined_at INTEGER NOT NULL,
  lost_at   INTEGER,
  reason    TEXT NOT NULL,
  drained   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE events (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  time     INTEGER NOT NULL,
  job      TEXT REFERENCES jobs (id) ON DELETE CASCADE,  -- null: of the cluster
  severity INTEGER NOT NULL,
  kind     TEXT NOT NULL,
  message  TEXT NOT NULL,
  node     TEXT NOT NULL,
  worker   INTEGER
);
CREATE INDEX events_by_job ON events (job, id);

CREATE TABLE series (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,  -- never used again: who reads a series in parts must not get into another
  job    TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  name   TEXT NOT NULL,
  worker INTEGER NOT NULL,
  UNIQUE (job, name, worker)
);

-- Clustered by series and order of arrival: a range of one series is one range of pages.
CREATE TABLE metrics (
  series   INTEGER NOT NULL REFERENCES series (id) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  step     INTEGER NOT NULL,
  wall     REAL NOT NULL,
  bytes    INTEGER NOT NULL,
  value    REAL,  -- null: not a number
  PRIMARY KEY (series, position)
) WITHOUT ROWID;

CREATE TABLE checkpoints (
  job        TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  step       INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (job, step)
) WITHOUT ROWID;

-- The newest items only; AUTOINCREMENT keeps the numbers growing whatever is trimmed.
CREATE TABLE stream (
  sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
  kind         INTEGER NOT NULL,
  job          TEXT NOT NULL,
  bytes        INTEGER NOT NULL,  -- of data
  bytes_before INTEGER NOT NULL,  -- of data of all rows before this one, those that are gone included
  data         TEXT NOT NULL
);
CREATE INDEX stream_by_job ON stream (job);

CREATE TABLE facts (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
