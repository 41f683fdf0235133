-- A state of schema version 5, as its program left it: a cluster, whose address has no app; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE archive (first INTEGER PRIMARY KEY, plans TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE archive_end (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE archived (
            first INTEGER PRIMARY KEY, last INTEGER NOT NULL, plans TEXT NOT NULL, body TEXT NOT NULL
        );
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE half_moved (source TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE heads (
            scope TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL, serial INTEGER NOT NULL,
            records INTEGER NOT NULL, digest TEXT NOT NULL
        ) WITHOUT ROWID;
INSERT INTO "heads" VALUES('org/personal',2,'65b8c57a3d01c625770f871e5149896de841ce6bb7b91a5c304614d98e38565e',2,1,'4a735fad0294916145bfd67145c13b934a1577ca47f599991043d7ded3df40a5');
CREATE TABLE journal (
            row INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        , scope TEXT NOT NULL DEFAULT '', seq INTEGER NOT NULL DEFAULT 0);
INSERT INTO "journal" VALUES(1,'r1','step.intent','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"scope":"org/personal","creates":true}','a828582a0352111c0dbf8518bea9b236f82530f07a760b83ff458a3cdeec43ac','org/personal',1);
INSERT INTO "journal" VALUES(2,'r1','step.done','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"id":"pg_1"}','65b8c57a3d01c625770f871e5149896de841ce6bb7b91a5c304614d98e38565e','org/personal',2);
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'',1,'ann','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'ann','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('checks','{"version": 10, "rows": 2, "serial": 2, "heads": "4a735fad0294916145bfd67145c13b934a1577ca47f599991043d7ded3df40a5", "trunk_seq": 0, "trunk_hash": "02020202-0202-4202-8202-020202020202", "trunk_serial": 0, "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "plans_run": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "unclaimed": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "leases": "97856db4d8bb0c8dc89af2693158cd02552aba440d125e23551ba0b4db91a995", "sqlite_sequence": "94194dddeefc06ad388b40d22d9502f35c1de2b06cc39b57dc6427f8d3769b5f", "facts": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "half_moved": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archived": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archive_end": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}');
INSERT INTO "meta" VALUES('digest','39bda656b6a13a468001fc8f227860ac125c35a1efb4977863456b73b8ed1530');
INSERT INTO "meta" VALUES('lineage','02020202-0202-4202-8202-020202020202');
CREATE TABLE open_intents (
            run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, row INTEGER NOT NULL,
            PRIMARY KEY (run, step, attempt)
        ) WITHOUT ROWID;
CREATE TABLE plans_run (plan TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE records (
            kind TEXT NOT NULL, app TEXT NOT NULL, name TEXT NOT NULL, ordinal INTEGER NOT NULL,
            serial INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL,
            PRIMARY KEY (kind, app, name, ordinal)
        ) WITHOUT ROWID;
INSERT INTO "records" VALUES('PostgresCluster','','orders',0,2,'{"id":"pg_1","scope":"org/personal","applied":{"plan":"starter","ready_after_s":152},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','277fd3c6b36f9028d04c60fdc53bb021601c70f2b460fe888b43f595c029944e');
CREATE TABLE unclaimed (id TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
CREATE UNIQUE INDEX chains ON journal (scope, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',2);
COMMIT;
