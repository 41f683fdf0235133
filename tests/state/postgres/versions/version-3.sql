CREATE SCHEMA reconcile;
CREATE TABLE reconcile.archive (
    state integer NOT NULL,
    scope text NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE ONLY reconcile.archive ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE reconcile.heads (
    state integer NOT NULL,
    scope text NOT NULL,
    seq bigint NOT NULL,
    hash text NOT NULL,
    serial bigint NOT NULL,
    records bigint NOT NULL,
    lists text NOT NULL,
    digest text NOT NULL
);
CREATE TABLE reconcile.journal (
    state integer NOT NULL,
    scope text NOT NULL,
    seq bigint NOT NULL,
    "row" bigint NOT NULL,
    run text NOT NULL,
    event text NOT NULL,
    at text NOT NULL,
    address text,
    step text NOT NULL,
    attempt integer NOT NULL,
    data text NOT NULL,
    previous text NOT NULL,
    hash text NOT NULL
);
ALTER TABLE reconcile.journal ALTER COLUMN "row" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reconcile.journal_row_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reconcile.leases (
    state integer NOT NULL,
    scope text NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    holder text DEFAULT ''::text NOT NULL,
    since timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    expires_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL,
    released boolean DEFAULT true NOT NULL,
    token text DEFAULT ''::text NOT NULL
);
CREATE TABLE reconcile.lists (
    state integer NOT NULL,
    list text NOT NULL,
    key text NOT NULL,
    scope text NOT NULL,
    seq bigint NOT NULL,
    value text NOT NULL
);
CREATE TABLE reconcile.records (
    state integer NOT NULL,
    kind text NOT NULL,
    app text NOT NULL,
    name text NOT NULL,
    ordinal integer NOT NULL,
    scope text NOT NULL,
    id text NOT NULL,
    serial bigint NOT NULL,
    body text NOT NULL,
    digest text NOT NULL
);
CREATE TABLE reconcile.states (
    id integer NOT NULL,
    environment text NOT NULL,
    lineage text NOT NULL,
    key bytea NOT NULL,
    digest text NOT NULL,
    moved_to text DEFAULT ''::text NOT NULL
);
ALTER TABLE reconcile.states ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME reconcile.states_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE reconcile.version (
    version integer NOT NULL
);
INSERT INTO reconcile.archive (state, scope, first, last, body) VALUES (1, 'shop', 1, 2, '\x789c7d8f396ec3500c44fb1c836d249be45fe9730469ec14fc1b124091054baa82dc3d920db701060316c3c19b3377307f5e27e8a883e61279c7dc5b75b1b741a897e6b56f54a241533de5021d544e8a26e716321b0a96950cb24f2cec9cc6dac465e5a241d4070ac511e54865cb538c0dcd5671a3ddd6f1302f7a5beadeca68b047daf4467c42dcf47a77e8c675183ab823fe5c601a74bcc0e971f474815ff878399be70ede93d0b4f92cb184520883f54a2a4ea9c56042c9c635146b534557258bc5645563162762246a4ae1c9382f753a7c8d4b1d97ff19e1fd3aacdff5b8431c8b2eba3fd3837907fc03b1dc5f1b');
INSERT INTO reconcile.heads (state, scope, seq, hash, serial, records, lists, digest) VALUES (1, '', 1, '435ccbc4be83091a6f9f6accf91a9621ac570c5fdc8360e13c24b2c89caac86d', 0, 0, 'a73c63a72a9dcc8980556fe6b0c9b7bbe5328e18677ebc83fb044aba82ed3e0a', 'd795707362319f9c8f122f158ca2f1a3e2607b7f19dbd9c5136716a59a7b51b9');
INSERT INTO reconcile.heads (state, scope, seq, hash, serial, records, lists, digest) VALUES (1, 'blog', 2, '7be472127b05f075e6a45bd3abc553e4ad4a6fd6fea6d7813f1e6b01ff072932', 1, 1, 'd639fcc30628979e0bf74a5dc290e1e68717c736dcc4c83774d5cb3cc20d1530', '130514f55343d8874c830c0b7d1530d949d468c7faa997c265cc5cd48bbbccb8');
INSERT INTO reconcile.heads (state, scope, seq, hash, serial, records, lists, digest) VALUES (1, 'shop', 4, 'f9ef51f97c33115bf05aa129f7e1f25beed5f3755628c3421e3f68016abe2dc4', 3, 2, '2f89e791a1fb04eed18024a58353a14c69755880b96b57a3066dde03688ae371', 'cd37c5e17ae3d2ac2211982ffc02cf2b5aae11f938cebae8d99531c6f0d9417a');
INSERT INTO reconcile.heads (state, scope, seq, hash, serial, records, lists, digest) VALUES (2, 'shop', 1, 'd8c68a9bb10d65c886b8c9e508d5b6519a4ed903e6c61988b577502c8c5800f4', 1, 1, '5a1fbe971baa775c2d1b558bfa6ea95795bca1630626b733d03223dedc17b38d', '40b9da9ba727090a170820efcd541c664cbd0118af4c554d150722518795a0d8');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (1, '', 1, 1, '', 'decided', '2030-01-01T12:00:00+00:00', NULL, '', 1, '{"platform":"https://platform"}', 'f5b16522-4a58-4791-9f6a-f1d8303e61cd', '435ccbc4be83091a6f9f6accf91a9621ac570c5fdc8360e13c24b2c89caac86d');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (1, 'shop', 3, 4, 'r1', 'step.done', '2030-01-01T12:00:00+00:00', 'Volume/shop/data', 's1', 1, '{}', 'faf6c98d7dd10746a1a95a1f8737dc35f0944be05e9c940b4aa8c9599398abb7', '95dfe9d733033bd853b4a948b03022aa7d499c38f638441474fb888d749263be');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (1, 'shop', 4, 5, 'r1', 'step.intent', '2030-01-01T12:00:00+00:00', 'Volume/shop/data', 's2', 1, '{"scope":"shop"}', '95dfe9d733033bd853b4a948b03022aa7d499c38f638441474fb888d749263be', 'f9ef51f97c33115bf05aa129f7e1f25beed5f3755628c3421e3f68016abe2dc4');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (1, 'blog', 1, 6, 'r2', 'decided', '2030-01-01T12:00:00+00:00', NULL, '', 1, '{"unclaimed":"vol_9","scope":"blog","odd":"\ud800 \u0000 \u2603"}', 'f5b16522-4a58-4791-9f6a-f1d8303e61cd', 'ba69cd60e6d47ac4c8c446310f22b7f83ddf55b2e4baeefb7cf38e587e8d20ee');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (1, 'blog', 2, 7, 'r2', 'decided', '2030-01-01T12:00:00+00:00', 'Volume/blog/logs', '', 1, '{"moved_from":"Volume/shop/logs","scope":"shop","id":"vol_logs"}', 'ba69cd60e6d47ac4c8c446310f22b7f83ddf55b2e4baeefb7cf38e587e8d20ee', '7be472127b05f075e6a45bd3abc553e4ad4a6fd6fea6d7813f1e6b01ff072932');
INSERT INTO reconcile.journal (state, scope, seq, "row", run, event, at, address, step, attempt, data, previous, hash) OVERRIDING SYSTEM VALUE VALUES (2, 'shop', 1, 8, 'r1', 'step.intent', '2030-01-01T12:00:00+00:00', 'Volume/shop/data', 's1', 1, '{}', '73a9bef4-99bb-44dc-bbd2-a4f2c8af5bd9', 'd8c68a9bb10d65c886b8c9e508d5b6519a4ed903e6c61988b577502c8c5800f4');
INSERT INTO reconcile.leases (state, scope, epoch, holder, since, expires_at, released, token) VALUES (1, '', 1, 'me', '2030-01-01 12:00:00+00', '2030-01-01 12:01:00+00', true, '0c769b16698f075e75f2f5dc64d24ffb');
INSERT INTO reconcile.leases (state, scope, epoch, holder, since, expires_at, released, token) VALUES (1, 'blog', 1, 'me', '2030-01-01 12:00:00+00', '2030-01-01 12:01:00+00', true, 'c276fdf9947da1621fb89fa57f7f2fc3');
INSERT INTO reconcile.leases (state, scope, epoch, holder, since, expires_at, released, token) VALUES (1, 'shop', 1, 'me', '2030-01-01 12:00:00+00', '2030-01-01 12:01:00+00', true, 'c276fdf9947da1621fb89fa57f7f2fc3');
INSERT INTO reconcile.leases (state, scope, epoch, holder, since, expires_at, released, token) VALUES (2, 'shop', 1, 'me', '2030-01-01 12:00:00+00', '2030-01-01 12:01:00+00', true, '62c730eb7f75c6a4f1169158cccfc300');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (1, 'facts', 'platform', '', 1, 'https://platform');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (1, 'open_intents', '["r1", "s2", 1]', 'shop', 4, '');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (1, 'unclaimed', 'vol_9', 'blog', 1, '');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (1, 'half_moved', 'Volume/shop/logs', 'blog', 2, '');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (1, 'archived', '["shop", 1]', 'shop', 2, '{"hash": "faf6c98d7dd10746a1a95a1f8737dc35f0944be05e9c940b4aa8c9599398abb7", "plans": ["plan-1"]}');
INSERT INTO reconcile.lists (state, list, key, scope, seq, value) VALUES (2, 'open_intents', '["r1", "s1", 1]', 'shop', 1, '');
INSERT INTO reconcile.records (state, kind, app, name, ordinal, scope, id, serial, body, digest) VALUES (1, 'Volume', 'shop', 'logs', 0, 'shop', 'vol_logs', 2, '{"id":"vol_logs","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"\ud800 \u0000","obligations":[],"inferred":false}', '1657c0b231b7c57d669946815074434b15fc187c5ad70aa3ba8955f50afa1e6a');
INSERT INTO reconcile.records (state, kind, app, name, ordinal, scope, id, serial, body, digest) VALUES (1, 'Volume', 'shop', 'data', 0, 'shop', 'vol_data', 3, '{"id":"vol_data","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"","obligations":[],"inferred":false}', '126ef57a989dfeae67863bf2b454bea51ef64fd4c032759b9b542f08074f9c48');
INSERT INTO reconcile.records (state, kind, app, name, ordinal, scope, id, serial, body, digest) VALUES (1, 'Volume', 'blog', 'logs', 0, 'blog', 'vol_logs', 1, '{"id":"vol_logs","scope":"blog","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"\ud800 \u0000","obligations":[],"inferred":false}', '24a95066884c777b876ad9fa74b5d1a576eee635c65377ad932dae1331918ac8');
INSERT INTO reconcile.records (state, kind, app, name, ordinal, scope, id, serial, body, digest) VALUES (2, 'Volume', 'shop', 'data', 0, 'shop', 'vol_data', 1, '{"id":"vol_data","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"","obligations":[],"inferred":false}', 'fb6a503348bcef895ce9b43295bec2024db8d933b34023df4adc5344e0c83d37');
INSERT INTO reconcile.states (id, environment, lineage, key, digest, moved_to) OVERRIDING SYSTEM VALUE VALUES (1, '', 'f5b16522-4a58-4791-9f6a-f1d8303e61cd', '\xc4bb86c3d1c427103c344c4189eb2f1e7bd5d47e446fcec2a3d811736110e578', '614a1e39e0d6bccd9234a4d5e9120933b79274ea2bdbbf1f10afea5f4714fcc5', '');
INSERT INTO reconcile.states (id, environment, lineage, key, digest, moved_to) OVERRIDING SYSTEM VALUE VALUES (2, 'prod', '73a9bef4-99bb-44dc-bbd2-a4f2c8af5bd9', '\x9f267a0ed3197217dd2bba1537436e5c2441e3d54410492b788768bcff2218cf', 'c9c935a80b87ee073ffd7169212235072ccf3ea152f40ca54e4f8b5f7b359a1e', '');
INSERT INTO reconcile.version (version) VALUES (3);
ALTER TABLE ONLY reconcile.archive
    ADD CONSTRAINT archive_pkey PRIMARY KEY (state, scope, first);
ALTER TABLE ONLY reconcile.heads
    ADD CONSTRAINT heads_pkey PRIMARY KEY (state, scope);
ALTER TABLE ONLY reconcile.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (state, scope, seq);
ALTER TABLE ONLY reconcile.leases
    ADD CONSTRAINT leases_pkey PRIMARY KEY (state, scope);
ALTER TABLE ONLY reconcile.lists
    ADD CONSTRAINT lists_pkey PRIMARY KEY (state, list, key);
ALTER TABLE ONLY reconcile.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (state, kind, app, name, ordinal);
ALTER TABLE ONLY reconcile.states
    ADD CONSTRAINT states_environment_key UNIQUE (environment);
ALTER TABLE ONLY reconcile.states
    ADD CONSTRAINT states_pkey PRIMARY KEY (id);
CREATE INDEX records_state_scope_idx ON reconcile.records USING btree (state, scope);
