CREATE TABLE audit (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at DATETIME NOT NULL,
  actor_id INTEGER,
  actor VARCHAR NOT NULL,
  action VARCHAR NOT NULL,
  target VARCHAR NOT NULL,
  detail JSON NOT NULL
);
CREATE INDEX ix_audit_target_id ON audit (target, id);
CREATE TABLE class_agreements (
  device VARCHAR NOT NULL,
  first VARCHAR NOT NULL,
  second VARCHAR NOT NULL,
  agrees BOOLEAN NOT NULL,
  compared_at DATETIME NOT NULL,
  CONSTRAINT pk_class_agreements PRIMARY KEY (device, first, second)
);
CREATE TABLE code (
  hash VARCHAR NOT NULL,
  files JSON NOT NULL,
  CONSTRAINT pk_code PRIMARY KEY (hash)
);
CREATE TABLE deleted_uses (
  submission_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  is_first BOOLEAN NOT NULL,
  user_id INTEGER NOT NULL,
  leaderboard_id INTEGER NOT NULL,
  mode VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  used_at DATETIME,
  seconds DOUBLE NOT NULL,
  cost DOUBLE NOT NULL,
  CONSTRAINT pk_deleted_uses PRIMARY KEY (submission_id, device)
);
CREATE INDEX ix_deleted_uses_created_at_is_first_mode ON deleted_uses (created_at, is_first, mode);
CREATE INDEX ix_deleted_uses_leaderboard_id_created_at_is_first_mode ON deleted_uses (leaderboard_id, created_at, is_first, mode);
CREATE INDEX ix_deleted_uses_user_id_created_at_is_first_mode ON deleted_uses (user_id, created_at, is_first, mode);
CREATE TABLE device_calibrations (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  machine VARCHAR NOT NULL,
  gpu VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  at DATETIME NOT NULL,
  fits BOOLEAN NOT NULL,
  fresh BOOLEAN NOT NULL,
  vouched_at DATETIME,
  found JSON NOT NULL
);
CREATE INDEX ix_device_calibrations_machine_gpu_device_id ON device_calibrations (machine, gpu, device, id);
CREATE TABLE device_faults (
  machine VARCHAR NOT NULL,
  gpu VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  since DATETIME NOT NULL,
  next_look_at DATETIME NOT NULL,
  CONSTRAINT pk_device_faults PRIMARY KEY (machine, gpu)
);
CREATE TABLE dispatchers (
  owner VARCHAR NOT NULL,
  machine VARCHAR NOT NULL,
  devices JSON NOT NULL,
  in_use JSON DEFAULT '{}' NOT NULL,
  started_at DATETIME NOT NULL,
  seen_at DATETIME NOT NULL,
  draining BOOLEAN NOT NULL,
  CONSTRAINT pk_dispatchers PRIMARY KEY (owner)
);
CREATE TABLE machines (
  name VARCHAR NOT NULL,
  launcher VARCHAR NOT NULL,
  slots JSON NOT NULL,
  facts JSON NOT NULL,
  labels JSON DEFAULT '[]' NOT NULL,
  is_own BOOLEAN NOT NULL,
  is_draining BOOLEAN NOT NULL,
  trouble VARCHAR NOT NULL,
  token_hash VARCHAR,
  agent VARCHAR,
  joined_at DATETIME NOT NULL,
  seen_at DATETIME,
  busy_s DOUBLE NOT NULL,
  price_per_hour DOUBLE NOT NULL,
  cost DOUBLE NOT NULL,
  CONSTRAINT pk_machines PRIMARY KEY (name),
  CONSTRAINT uq_machines_token_hash UNIQUE (token_hash)
);
CREATE TABLE paces (
  device VARCHAR NOT NULL,
  mode VARCHAR NOT NULL,
  mean_s DOUBLE NOT NULL,
  count INTEGER NOT NULL,
  CONSTRAINT pk_paces PRIMARY KEY (device, mode)
);
CREATE TABLE pauses (
  scope VARCHAR NOT NULL,
  "key" VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  since DATETIME NOT NULL,
  "by" VARCHAR NOT NULL,
  CONSTRAINT pk_pauses PRIMARY KEY (scope, "key")
);
CREATE TABLE task_versions (
  hash VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  lang VARCHAR NOT NULL,
  ranking_by VARCHAR NOT NULL,
  body JSON NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_task_versions PRIMARY KEY (hash)
);
CREATE TABLE users (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name VARCHAR NOT NULL,
  name_key VARCHAR NOT NULL,
  shown_name VARCHAR DEFAULT '' NOT NULL,
  shown_key VARCHAR,
  role VARCHAR DEFAULT 'participant' NOT NULL,
  banned_at DATETIME,
  ban_reason VARCHAR DEFAULT '' NOT NULL,
  direct_messages BOOLEAN DEFAULT 1 NOT NULL,
  bell BOOLEAN DEFAULT 1 NOT NULL,
  bell_read INTEGER DEFAULT '0' NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT uq_users_name_key UNIQUE (name_key),
  CONSTRAINT uq_users_shown_key UNIQUE (shown_key)
);
CREATE TABLE board_events (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name VARCHAR NOT NULL,
  name_key VARCHAR NOT NULL,
  creator_id INTEGER NOT NULL,
  created_at DATETIME NOT NULL,
  title VARCHAR DEFAULT '' NOT NULL,
  text VARCHAR DEFAULT '' NOT NULL,
  opens_at DATETIME,
  qualifier_at DATETIME,
  ends_at DATETIME,
  registration BOOLEAN DEFAULT 0 NOT NULL,
  register_by DATETIME,
  terms VARCHAR DEFAULT '' NOT NULL,
  licence VARCHAR DEFAULT '' NOT NULL,
  fields JSON NOT NULL,
  team_size INTEGER DEFAULT '1' NOT NULL,
  teams_until DATETIME,
  points_by VARCHAR DEFAULT 'place' NOT NULL,
  place_points VARCHAR NOT NULL,
  full_points DOUBLE DEFAULT '100' NOT NULL,
  ties VARCHAR DEFAULT 'shared' NOT NULL,
  prizes JSON NOT NULL,
  CONSTRAINT uq_board_events_name_key UNIQUE (name_key),
  CONSTRAINT fk_board_events_creator_id_users FOREIGN KEY(creator_id) REFERENCES users (id)
);
CREATE INDEX ix_board_events_creator_id ON board_events (creator_id);
CREATE TABLE canaries (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  calibration_id INTEGER NOT NULL,
  at DATETIME NOT NULL,
  canary_ns DOUBLE NOT NULL,
  fits BOOLEAN NOT NULL,
  CONSTRAINT fk_canaries_calibration_id_device_calibrations FOREIGN KEY(calibration_id) REFERENCES device_calibrations (id) ON DELETE CASCADE
);
CREATE INDEX ix_canaries_calibration_id ON canaries (calibration_id);
CREATE TABLE courses (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name VARCHAR NOT NULL,
  name_key VARCHAR NOT NULL,
  creator_id INTEGER NOT NULL,
  created_at DATETIME NOT NULL,
  of_board BOOLEAN DEFAULT 0 NOT NULL,
  rules JSON NOT NULL,
  CONSTRAINT uq_courses_name_key UNIQUE (name_key),
  CONSTRAINT fk_courses_creator_id_users FOREIGN KEY(creator_id) REFERENCES users (id)
);
CREATE INDEX ix_courses_creator_id ON courses (creator_id);
CREATE TABLE identities (
  provider VARCHAR NOT NULL,
  subject VARCHAR NOT NULL,
  user_id INTEGER NOT NULL,
  login VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_identities PRIMARY KEY (provider, subject),
  CONSTRAINT fk_identities_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_identities_user_id ON identities (user_id);
CREATE TABLE invites (
  code VARCHAR NOT NULL,
  created_by INTEGER,
  created_at DATETIME NOT NULL,
  claimed_by INTEGER,
  claimed_at DATETIME,
  label VARCHAR DEFAULT '' NOT NULL,
  name VARCHAR DEFAULT '' NOT NULL,
  "group" VARCHAR DEFAULT '' NOT NULL,
  pseudonym VARCHAR,
  position INTEGER,
  CONSTRAINT pk_invites PRIMARY KEY (code),
  CONSTRAINT fk_invites_created_by_users FOREIGN KEY(created_by) REFERENCES users (id) ON DELETE SET NULL,
  CONSTRAINT fk_invites_claimed_by_users FOREIGN KEY(claimed_by) REFERENCES users (id) ON DELETE SET NULL
);
CREATE INDEX ix_invites_claimed_by ON invites (claimed_by);
CREATE INDEX ix_invites_created_by ON invites (created_by);
CREATE TABLE machine_calls (
  id VARCHAR NOT NULL,
  machine VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  "order" JSON NOT NULL,
  limit_s DOUBLE NOT NULL,
  state VARCHAR NOT NULL,
  events JSON NOT NULL,
  outcome JSON,
  outcome_file VARCHAR,
  uploaded_bytes INTEGER NOT NULL,
  created_at DATETIME NOT NULL,
  CONSTRAINT pk_machine_calls PRIMARY KEY (id),
  CONSTRAINT fk_machine_calls_machine_machines FOREIGN KEY(machine) REFERENCES machines (name) ON DELETE CASCADE
);
CREATE INDEX ix_machine_calls_machine ON machine_calls (machine);
CREATE INDEX ix_machine_calls_state ON machine_calls (state);
CREATE TABLE one_time_codes (
  hash VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  user_id INTEGER,
  created_at DATETIME NOT NULL,
  expires_at DATETIME NOT NULL,
  user_code VARCHAR,
  client VARCHAR,
  scopes VARCHAR,
  polled_at DATETIME,
  denied BOOLEAN DEFAULT 0 NOT NULL,
  CONSTRAINT pk_one_time_codes PRIMARY KEY (hash),
  CONSTRAINT fk_one_time_codes_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT uq_one_time_codes_user_code UNIQUE (user_code)
);
CREATE INDEX ix_one_time_codes_user_id ON one_time_codes (user_id);
CREATE TABLE tokens (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user_id INTEGER NOT NULL,
  kind VARCHAR NOT NULL,
  name VARCHAR NOT NULL,
  hash VARCHAR NOT NULL,
  scopes VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  expires_at DATETIME,
  last_used_at DATETIME,
  revoked_at DATETIME,
  CONSTRAINT fk_tokens_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT uq_tokens_hash UNIQUE (hash)
);
CREATE INDEX ix_tokens_user_id ON tokens (user_id);
CREATE TABLE announcements (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  event_id INTEGER NOT NULL,
  author_id INTEGER,
  at DATETIME NOT NULL,
  kind VARCHAR NOT NULL,
  text VARCHAR NOT NULL,
  answer_to INTEGER,
  recipient_id INTEGER,
  CONSTRAINT fk_announcements_event_id_board_events FOREIGN KEY(event_id) REFERENCES board_events (id) ON DELETE CASCADE,
  CONSTRAINT fk_announcements_author_id_users FOREIGN KEY(author_id) REFERENCES users (id) ON DELETE SET NULL,
  CONSTRAINT fk_announcements_answer_to_announcements FOREIGN KEY(answer_to) REFERENCES announcements (id) ON DELETE CASCADE,
  CONSTRAINT fk_announcements_recipient_id_users FOREIGN KEY(recipient_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_announcements_answer_to ON announcements (answer_to);
CREATE INDEX ix_announcements_author_id ON announcements (author_id);
CREATE INDEX ix_announcements_event_id_id ON announcements (event_id, id);
CREATE INDEX ix_announcements_recipient_id ON announcements (recipient_id);
CREATE TABLE invite_courses (
  code VARCHAR NOT NULL,
  course_id INTEGER NOT NULL,
  CONSTRAINT pk_invite_courses PRIMARY KEY (code, course_id),
  CONSTRAINT fk_invite_courses_code_invites FOREIGN KEY(code) REFERENCES invites (code) ON DELETE CASCADE,
  CONSTRAINT fk_invite_courses_course_id_courses FOREIGN KEY(course_id) REFERENCES courses (id) ON DELETE CASCADE
);
CREATE INDEX ix_invite_courses_course_id ON invite_courses (course_id);
CREATE TABLE leaderboards (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name VARCHAR NOT NULL,
  name_key VARCHAR NOT NULL,
  task_hash VARCHAR NOT NULL,
  harness VARCHAR NOT NULL,
  opens_at DATETIME,
  deadline DATETIME,
  creator_id INTEGER NOT NULL,
  created_at DATETIME NOT NULL,
  visibility VARCHAR DEFAULT 'public' NOT NULL,
  pseudonymous BOOLEAN DEFAULT 0 NOT NULL,
  after_deadline VARCHAR DEFAULT 'unranked' NOT NULL,
  code_policy VARCHAR DEFAULT 'after_deadline' NOT NULL,
  freeze_at DATETIME,
  frozen_at DATETIME,
  max_file_bytes INTEGER,
  review_tags VARCHAR DEFAULT '' NOT NULL,
  trust VARCHAR DEFAULT 'any' NOT NULL,
  duel BOOLEAN DEFAULT 0 NOT NULL,
  cpu_times BOOLEAN DEFAULT 0 NOT NULL,
  provider_isolation BOOLEAN DEFAULT 0 NOT NULL,
  judging VARCHAR DEFAULT '' NOT NULL,
  judging_since DATETIME,
  notice VARCHAR DEFAULT '' NOT NULL,
  discord_thread VARCHAR DEFAULT '' NOT NULL,
  seeds_below BIGINT,
  course_id INTEGER,
  event_id INTEGER,
  event_weight DOUBLE DEFAULT '1' NOT NULL,
  share DOUBLE DEFAULT '1' NOT NULL,
  CONSTRAINT uq_leaderboards_name_key UNIQUE (name_key),
  CONSTRAINT fk_leaderboards_task_hash_task_versions FOREIGN KEY(task_hash) REFERENCES task_versions (hash),
  CONSTRAINT fk_leaderboards_creator_id_users FOREIGN KEY(creator_id) REFERENCES users (id),
  CONSTRAINT fk_leaderboards_course_id_courses FOREIGN KEY(course_id) REFERENCES courses (id) ON DELETE SET NULL,
  CONSTRAINT fk_leaderboards_event_id_board_events FOREIGN KEY(event_id) REFERENCES board_events (id) ON DELETE SET NULL
);
CREATE INDEX ix_leaderboards_course_id ON leaderboards (course_id);
CREATE INDEX ix_leaderboards_creator_id ON leaderboards (creator_id);
CREATE INDEX ix_leaderboards_event_id ON leaderboards (event_id);
CREATE INDEX ix_leaderboards_task_hash ON leaderboards (task_hash);
CREATE TABLE members (
  course_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  joined_at DATETIME NOT NULL,
  label VARCHAR DEFAULT '' NOT NULL,
  name VARCHAR DEFAULT '' NOT NULL,
  "group" VARCHAR DEFAULT '' NOT NULL,
  pseudonym VARCHAR,
  position INTEGER,
  CONSTRAINT pk_members PRIMARY KEY (course_id, user_id),
  CONSTRAINT uq_members_course_id_pseudonym UNIQUE (course_id, pseudonym),
  CONSTRAINT fk_members_course_id_courses FOREIGN KEY(course_id) REFERENCES courses (id) ON DELETE CASCADE,
  CONSTRAINT fk_members_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_members_user_id ON members (user_id);
CREATE TABLE teams (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  event_id INTEGER NOT NULL,
  name VARCHAR NOT NULL,
  name_key VARCHAR NOT NULL,
  captain_id INTEGER NOT NULL,
  code VARCHAR NOT NULL,
  CONSTRAINT uq_teams_event_id_name_key UNIQUE (event_id, name_key),
  CONSTRAINT fk_teams_event_id_board_events FOREIGN KEY(event_id) REFERENCES board_events (id) ON DELETE CASCADE,
  CONSTRAINT fk_teams_captain_id_users FOREIGN KEY(captain_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT uq_teams_code UNIQUE (code)
);
CREATE INDEX ix_teams_captain_id ON teams (captain_id);
CREATE TABLE board_machines (
  leaderboard_id INTEGER NOT NULL,
  machine VARCHAR NOT NULL,
  CONSTRAINT pk_board_machines PRIMARY KEY (leaderboard_id, machine),
  CONSTRAINT fk_board_machines_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_board_machines_machine_machines FOREIGN KEY(machine) REFERENCES machines (name) ON DELETE CASCADE
);
CREATE TABLE deadline_exceptions (
  leaderboard_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  until DATETIME NOT NULL,
  CONSTRAINT pk_deadline_exceptions PRIMARY KEY (leaderboard_id, user_id),
  CONSTRAINT fk_deadline_exceptions_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_deadline_exceptions_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_deadline_exceptions_user_id ON deadline_exceptions (user_id);
CREATE TABLE deleted_reviews (
  review_id INTEGER NOT NULL,
  leaderboard_id INTEGER NOT NULL,
  submission_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  score_s DOUBLE,
  finished_at DATETIME NOT NULL,
  opened_at DATETIME NOT NULL,
  opened_by VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  decision VARCHAR,
  decided_at DATETIME,
  deleted_at DATETIME NOT NULL,
  CONSTRAINT pk_deleted_reviews PRIMARY KEY (review_id),
  CONSTRAINT fk_deleted_reviews_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_deleted_reviews_user_id_users FOREIGN KEY(user_id) REFERENCES users (id)
);
CREATE INDEX ix_deleted_reviews_leaderboard_id_review_id ON deleted_reviews (leaderboard_id, review_id);
CREATE INDEX ix_deleted_reviews_user_id ON deleted_reviews (user_id);
CREATE TABLE finals (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  contestants JSON NOT NULL,
  error DOUBLE NOT NULL,
  started_by VARCHAR NOT NULL,
  started_at DATETIME NOT NULL,
  ended_at DATETIME,
  outcome JSON,
  CONSTRAINT fk_finals_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE
);
CREATE INDEX ix_finals_leaderboard_id_device_id ON finals (leaderboard_id, device, id);
CREATE TABLE leaderboard_devices (
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  position INTEGER NOT NULL,
  revision BIGINT NOT NULL,
  frozen_revision BIGINT NOT NULL,
  CONSTRAINT pk_leaderboard_devices PRIMARY KEY (leaderboard_id, device),
  CONSTRAINT fk_leaderboard_devices_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE
);
CREATE TABLE limits (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  leaderboard_id INTEGER,
  user_id INTEGER,
  device VARCHAR,
  launcher VARCHAR,
  mode_group VARCHAR,
  per_user BOOLEAN NOT NULL,
  quantity VARCHAR NOT NULL,
  amount DOUBLE NOT NULL,
  window_s INTEGER NOT NULL,
  CONSTRAINT fk_limits_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_limits_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_limits_leaderboard_id ON limits (leaderboard_id);
CREATE INDEX ix_limits_user_id ON limits (user_id);
CREATE TABLE registrations (
  event_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  accepted_at DATETIME NOT NULL,
  answers JSON NOT NULL,
  team_id INTEGER,
  CONSTRAINT pk_registrations PRIMARY KEY (event_id, user_id),
  CONSTRAINT fk_registrations_event_id_board_events FOREIGN KEY(event_id) REFERENCES board_events (id) ON DELETE CASCADE,
  CONSTRAINT fk_registrations_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT fk_registrations_team_id_teams FOREIGN KEY(team_id) REFERENCES teams (id) ON DELETE SET NULL
);
CREATE INDEX ix_registrations_team_id ON registrations (team_id);
CREATE INDEX ix_registrations_user_id ON registrations (user_id);
CREATE TABLE reservations (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  machine VARCHAR NOT NULL,
  leaderboard_id INTEGER,
  begins_at DATETIME NOT NULL,
  ends_at DATETIME NOT NULL,
  reason VARCHAR NOT NULL,
  CONSTRAINT fk_reservations_machine_machines FOREIGN KEY(machine) REFERENCES machines (name) ON DELETE CASCADE,
  CONSTRAINT fk_reservations_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE
);
CREATE INDEX ix_reservations_ends_at ON reservations (ends_at);
CREATE INDEX ix_reservations_leaderboard_id ON reservations (leaderboard_id);
CREATE INDEX ix_reservations_machine ON reservations (machine);
CREATE TABLE submissions (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  leaderboard_id INTEGER NOT NULL,
  user_id INTEGER NOT NULL,
  code_hash VARCHAR NOT NULL,
  file_name VARCHAR NOT NULL,
  mode VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  client VARCHAR DEFAULT '' NOT NULL,
  idempotency_key VARCHAR,
  request_hash VARCHAR,
  profile JSON,
  withdrawn_at DATETIME,
  CONSTRAINT fk_submissions_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_submissions_user_id_users FOREIGN KEY(user_id) REFERENCES users (id),
  CONSTRAINT fk_submissions_code_hash_code FOREIGN KEY(code_hash) REFERENCES code (hash)
);
CREATE INDEX ix_submissions_code_hash ON submissions (code_hash);
CREATE INDEX ix_submissions_leaderboard_id_created_at ON submissions (leaderboard_id, created_at);
CREATE INDEX ix_submissions_leaderboard_id_id ON submissions (leaderboard_id, id);
CREATE INDEX ix_submissions_leaderboard_id_user_id_id ON submissions (leaderboard_id, user_id, id);
CREATE INDEX ix_submissions_user_id_created_at ON submissions (user_id, created_at);
CREATE INDEX ix_submissions_user_id_id ON submissions (user_id, id);
CREATE UNIQUE INDEX uq_submissions_user_id_idempotency_key ON submissions (user_id, idempotency_key);
CREATE TABLE webhooks (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  leaderboard_id INTEGER NOT NULL,
  url VARCHAR NOT NULL,
  secret VARCHAR NOT NULL,
  created_by VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  failures INTEGER DEFAULT '0' NOT NULL,
  last_error VARCHAR DEFAULT '' NOT NULL,
  succeeded_at DATETIME,
  disabled_at DATETIME,
  CONSTRAINT fk_webhooks_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE
);
CREATE INDEX ix_webhooks_leaderboard_id ON webhooks (leaderboard_id);
CREATE TABLE events (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  submission_id INTEGER NOT NULL,
  job_id INTEGER,
  at DATETIME NOT NULL,
  kind VARCHAR NOT NULL,
  data JSON NOT NULL,
  CONSTRAINT fk_events_submission_id_submissions FOREIGN KEY(submission_id) REFERENCES submissions (id) ON DELETE CASCADE
);
CREATE INDEX ix_events_submission_id_id ON events (submission_id, id);
CREATE TABLE jobs (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  submission_id INTEGER NOT NULL,
  user_id INTEGER DEFAULT '0' NOT NULL,
  leaderboard_id INTEGER NOT NULL,
  task_hash VARCHAR NOT NULL,
  device VARCHAR NOT NULL,
  mode VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  practice BOOLEAN DEFAULT 0 NOT NULL,
  priority INTEGER DEFAULT '0' NOT NULL,
  turn INTEGER DEFAULT '0' NOT NULL,
  attempt INTEGER NOT NULL,
  first_attempt INTEGER DEFAULT '1' NOT NULL,
  lost INTEGER DEFAULT '0' NOT NULL,
  lease_owner VARCHAR,
  lease_token VARCHAR,
  lease_until DATETIME,
  call VARCHAR,
  machine VARCHAR,
  reason VARCHAR NOT NULL,
  created_at DATETIME NOT NULL,
  queued_at DATETIME,
  started_at DATETIME,
  finished_at DATETIME,
  CONSTRAINT uq_jobs_submission_id_device UNIQUE (submission_id, device),
  CONSTRAINT fk_jobs_submission_id_submissions FOREIGN KEY(submission_id) REFERENCES submissions (id) ON DELETE CASCADE,
  CONSTRAINT fk_jobs_task_hash_task_versions FOREIGN KEY(task_hash) REFERENCES task_versions (hash)
);
CREATE INDEX ix_jobs_halted ON jobs (id) WHERE state = 'halted';
CREATE INDEX ix_jobs_practice ON jobs (leaderboard_id, device) WHERE practice = 1;
CREATE INDEX ix_jobs_quarantined ON jobs (id) WHERE state = 'quarantined';
CREATE INDEX ix_jobs_queue ON jobs (device, priority, turn, id, leaderboard_id) WHERE state = 'queued';
CREATE INDEX ix_jobs_queue_of_user ON jobs (user_id, device, priority, turn) WHERE state = 'queued';
CREATE INDEX ix_jobs_running ON jobs (device, lease_until) WHERE state = 'running';
CREATE INDEX ix_jobs_task_hash ON jobs (task_hash);
CREATE TABLE news (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  "key" VARCHAR NOT NULL,
  kind VARCHAR NOT NULL,
  at DATETIME NOT NULL,
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR DEFAULT '' NOT NULL,
  submission_id INTEGER,
  user_id INTEGER,
  score_s DOUBLE,
  speedup DOUBLE,
  tied BOOLEAN DEFAULT 0 NOT NULL,
  other_id INTEGER,
  other_submission_id INTEGER,
  recipient_id INTEGER,
  moment DATETIME,
  verdict VARCHAR DEFAULT '' NOT NULL,
  text VARCHAR DEFAULT '' NOT NULL,
  CONSTRAINT uq_news_key UNIQUE ("key"),
  CONSTRAINT fk_news_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_news_submission_id_submissions FOREIGN KEY(submission_id) REFERENCES submissions (id) ON DELETE CASCADE,
  CONSTRAINT fk_news_user_id_users FOREIGN KEY(user_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT fk_news_other_id_users FOREIGN KEY(other_id) REFERENCES users (id) ON DELETE CASCADE,
  CONSTRAINT fk_news_recipient_id_users FOREIGN KEY(recipient_id) REFERENCES users (id) ON DELETE CASCADE
);
CREATE INDEX ix_news_leaderboard_id_id ON news (leaderboard_id, id);
CREATE INDEX ix_news_other_id ON news (other_id);
CREATE INDEX ix_news_recipient_id_id ON news (recipient_id, id);
CREATE INDEX ix_news_submission_id ON news (submission_id);
CREATE INDEX ix_news_user_id ON news (user_id);
CREATE TABLE screenings (
  submission_id INTEGER NOT NULL,
  rules_version VARCHAR NOT NULL,
  left_out INTEGER NOT NULL,
  CONSTRAINT pk_screenings PRIMARY KEY (submission_id),
  CONSTRAINT fk_screenings_submission_id_submissions FOREIGN KEY(submission_id) REFERENCES submissions (id) ON DELETE CASCADE
);
CREATE TABLE comparisons (
  job_id INTEGER NOT NULL,
  first_id INTEGER,
  second_id INTEGER,
  CONSTRAINT pk_comparisons PRIMARY KEY (job_id),
  CONSTRAINT fk_comparisons_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
  CONSTRAINT fk_comparisons_first_id_submissions FOREIGN KEY(first_id) REFERENCES submissions (id) ON DELETE SET NULL,
  CONSTRAINT fk_comparisons_second_id_submissions FOREIGN KEY(second_id) REFERENCES submissions (id) ON DELETE SET NULL
);
CREATE INDEX ix_comparisons_first_id ON comparisons (first_id);
CREATE INDEX ix_comparisons_second_id ON comparisons (second_id);
CREATE TABLE final_duels (
  job_id INTEGER NOT NULL,
  final_id INTEGER NOT NULL,
  first_id INTEGER NOT NULL,
  second_id INTEGER NOT NULL,
  error DOUBLE NOT NULL,
  CONSTRAINT pk_final_duels PRIMARY KEY (job_id),
  CONSTRAINT fk_final_duels_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
  CONSTRAINT fk_final_duels_final_id_finals FOREIGN KEY(final_id) REFERENCES finals (id) ON DELETE CASCADE
);
CREATE INDEX ix_final_duels_final_id ON final_duels (final_id);
CREATE TABLE runs (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  task_hash VARCHAR DEFAULT '' NOT NULL,
  counted BOOLEAN NOT NULL,
  verdict VARCHAR NOT NULL,
  score_s DOUBLE,
  low_s DOUBLE,
  high_s DOUBLE,
  raw_s DOUBLE,
  speedup DOUBLE,
  trust VARCHAR NOT NULL,
  backend VARCHAR NOT NULL,
  started_at DATETIME NOT NULL,
  finished_at DATETIME NOT NULL,
  harness_hash VARCHAR NOT NULL,
  machine VARCHAR NOT NULL,
  lent BOOLEAN NOT NULL,
  isolation VARCHAR DEFAULT '' NOT NULL,
  host_class VARCHAR DEFAULT '' NOT NULL,
  cost DOUBLE DEFAULT '0' NOT NULL,
  report JSON NOT NULL,
  report_file VARCHAR,
  rank_s DOUBLE,
  duel VARCHAR DEFAULT '' NOT NULL,
  rival_id INTEGER,
  calibration_id INTEGER,
  judging VARCHAR DEFAULT '' NOT NULL,
  clock VARCHAR DEFAULT '' NOT NULL,
  CONSTRAINT uq_runs_job_id_attempt UNIQUE (job_id, attempt),
  CONSTRAINT fk_runs_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE
);
CREATE INDEX ix_runs_machine_finished_at_cost ON runs (machine, finished_at, cost);
CREATE INDEX ix_runs_task_hash ON runs (task_hash);
CREATE UNIQUE INDEX uq_runs_counted_job ON runs (job_id) WHERE counted;
CREATE TABLE screening_findings (
  submission_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  tag VARCHAR NOT NULL,
  line_number INTEGER NOT NULL,
  column_number INTEGER NOT NULL,
  source VARCHAR NOT NULL,
  explanation VARCHAR NOT NULL,
  CONSTRAINT pk_screening_findings PRIMARY KEY (submission_id, position),
  CONSTRAINT fk_screening_findings_submission_id_screenings FOREIGN KEY(submission_id) REFERENCES screenings (submission_id) ON DELETE CASCADE
);
CREATE INDEX ix_screening_findings_tag_submission_id ON screening_findings (tag, submission_id);
CREATE TABLE webhook_deliveries (
  webhook_id INTEGER NOT NULL,
  news_id INTEGER NOT NULL,
  next_at DATETIME NOT NULL,
  lease_token VARCHAR,
  lease_until DATETIME,
  CONSTRAINT pk_webhook_deliveries PRIMARY KEY (webhook_id, news_id),
  CONSTRAINT fk_webhook_deliveries_webhook_id_webhooks FOREIGN KEY(webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE,
  CONSTRAINT fk_webhook_deliveries_news_id_news FOREIGN KEY(news_id) REFERENCES news (id) ON DELETE CASCADE
);
CREATE INDEX ix_webhook_deliveries_news_id ON webhook_deliveries (news_id);
CREATE TABLE bests (
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  user_id INTEGER NOT NULL,
  host_class VARCHAR DEFAULT '' NOT NULL,
  run_id INTEGER NOT NULL,
  submission_id INTEGER NOT NULL,
  score_s DOUBLE NOT NULL,
  level INTEGER NOT NULL,
  low_s DOUBLE,
  high_s DOUBLE,
  duel VARCHAR DEFAULT '' NOT NULL,
  CONSTRAINT pk_bests PRIMARY KEY (leaderboard_id, device, user_id, host_class),
  CONSTRAINT fk_bests_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_bests_user_id_users FOREIGN KEY(user_id) REFERENCES users (id),
  CONSTRAINT fk_bests_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_bests_leaderboard_id_device_host_class_score_s_level_submission_id ON bests (leaderboard_id, device, host_class, score_s, level, submission_id);
CREATE INDEX ix_bests_leaderboard_id_device_score_s_level_submission_id ON bests (leaderboard_id, device, score_s, level, submission_id);
CREATE INDEX ix_bests_run_id ON bests (run_id);
CREATE INDEX ix_bests_user_id ON bests (user_id);
CREATE TABLE frozen_bests (
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  user_id INTEGER NOT NULL,
  host_class VARCHAR DEFAULT '' NOT NULL,
  run_id INTEGER NOT NULL,
  submission_id INTEGER NOT NULL,
  score_s DOUBLE NOT NULL,
  level INTEGER NOT NULL,
  low_s DOUBLE,
  high_s DOUBLE,
  duel VARCHAR DEFAULT '' NOT NULL,
  CONSTRAINT pk_frozen_bests PRIMARY KEY (leaderboard_id, device, user_id, host_class),
  CONSTRAINT fk_frozen_bests_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_frozen_bests_user_id_users FOREIGN KEY(user_id) REFERENCES users (id),
  CONSTRAINT fk_frozen_bests_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_frozen_bests_leaderboard_id_device_host_class_score_s_level_submission_id ON frozen_bests (leaderboard_id, device, host_class, score_s, level, submission_id);
CREATE INDEX ix_frozen_bests_leaderboard_id_device_score_s_level_submission_id ON frozen_bests (leaderboard_id, device, score_s, level, submission_id);
CREATE INDEX ix_frozen_bests_run_id ON frozen_bests (run_id);
CREATE INDEX ix_frozen_bests_user_id ON frozen_bests (user_id);
CREATE TABLE records (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  leaderboard_id INTEGER NOT NULL,
  device VARCHAR NOT NULL,
  user_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  submission_id INTEGER NOT NULL,
  score_s DOUBLE NOT NULL,
  at DATETIME NOT NULL,
  CONSTRAINT fk_records_leaderboard_id_leaderboards FOREIGN KEY(leaderboard_id) REFERENCES leaderboards (id) ON DELETE CASCADE,
  CONSTRAINT fk_records_user_id_users FOREIGN KEY(user_id) REFERENCES users (id),
  CONSTRAINT fk_records_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_records_leaderboard_id_device_id ON records (leaderboard_id, device, id);
CREATE INDEX ix_records_run_id ON records (run_id);
CREATE INDEX ix_records_user_id ON records (user_id);
CREATE TABLE reviews (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  job_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  code_hash VARCHAR DEFAULT '' NOT NULL,
  opened_at DATETIME NOT NULL,
  opened_by VARCHAR NOT NULL,
  reason VARCHAR NOT NULL,
  evidence JSON NOT NULL,
  decision VARCHAR,
  decided_at DATETIME,
  decided_by VARCHAR,
  note VARCHAR NOT NULL,
  CONSTRAINT fk_reviews_job_id_jobs FOREIGN KEY(job_id) REFERENCES jobs (id) ON DELETE CASCADE,
  CONSTRAINT fk_reviews_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_reviews_code_hash ON reviews (code_hash);
CREATE INDEX ix_reviews_job_id ON reviews (job_id);
CREATE INDEX ix_reviews_run_id ON reviews (run_id);
