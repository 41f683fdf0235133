-- A state of schema version 3, as its program left it; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 3;
BEGIN TRANSACTION;
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE journal (
            seq INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        , scope TEXT NOT NULL DEFAULT '');
INSERT INTO "journal" VALUES(1,'r1','run.started','2030-01-01T12:00:00+00:00',NULL,'',1,'{"plan":"p1"}','faa5b1fcf87ef2dd4bc4f208b0ba541b6926842ed459c7dede9058586f01c790','shop');
INSERT INTO "journal" VALUES(2,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"scope":"shop"}','1cf80bcd51182e803c17eb901ed44895b7424ef7926ef3850fb1bfbed5a56263','shop');
INSERT INTO "journal" VALUES(3,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"id":"vol_1"}','c8cfb62eaeff4b3f8cfc26bd7849affd26dd0de3023f05bbfda882df3c2c13ef','shop');
INSERT INTO "journal" VALUES(4,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"scope":"blog"}','9fa929427cc0c9c24e845e47c0b03f33a5c2c670752d6e49a9408f44f1e03c63','blog');
INSERT INTO "journal" VALUES(5,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"id":"vol_2"}','05b443956e7cedcea3ba187a7076aa1377f39b735a2ed048c0544be6cc31f993','blog');
INSERT INTO "journal" VALUES(6,'r1','step.intent','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"scope":"org/personal","creates":true}','4b051351bc3c069dd8d77b1fd7c5cde872c2d6d5dc727c0501494c58a83b945d','org/personal');
INSERT INTO "journal" VALUES(7,'r1','step.unknown','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"error":"timed out"}','3b8c807911df06dde27fbab26d85bc717c6194ac688cf70f37d64603bc89ba3f','org/personal');
INSERT INTO "journal" VALUES(8,'r1','decided','2030-01-01T12:00:00+00:00','Volume/shop/data','',1,'{"unclaimed":"vol_9","step":"x","because":"its outcome came after the call was settled otherwise","scope":"shop"}','1276ca0ce54027f85d4fc0a69fef62024b67516f32543a0f4e5ec11751688170','shop');
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'blog',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(3,'shop',1,'anna','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('checks','{"version": 12, "records": 2, "head_seq": 8, "head_hash": "1276ca0ce54027f85d4fc0a69fef62024b67516f32543a0f4e5ec11751688170", "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "7e7c8ba1618663e43ccb664cbc86106a7dac551941a9419812ea5623add9d2aa", "plans_run": "8c24de1f71b822838fe289772b5458d7ef9003841661cce346f849b3ad6f5fb7", "unclaimed": "9c2e49f6455a9551b21167a753745eaa730b0a4a91a928f528771ce668994e09", "leases": "10c6596aa84cef90efc40bc3ccd9f03c64d27e777852d63d62dc3afa1b2fb374", "sqlite_sequence": "3856d48561998379e04fb08929c5bb42fc108d6b8307da584f7d1d3e730e33d0", "facts": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}');
INSERT INTO "meta" VALUES('digest','e5349def7de5b4c81ded268bcc31378e70fd94f72458867a6a893b70b54c278c');
INSERT INTO "meta" VALUES('lineage','01010101-0101-4101-8101-010101010101');
INSERT INTO "meta" VALUES('serial',2);
CREATE TABLE open_intents (
            run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, seq INTEGER NOT NULL,
            PRIMARY KEY (run, step, attempt)
        ) WITHOUT ROWID;
INSERT INTO "open_intents" VALUES('r1','PostgresCluster/orders#create',1,6);
CREATE TABLE plans_run (plan TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO "plans_run" VALUES('p1');
CREATE TABLE records (
            kind TEXT NOT NULL, app TEXT NOT NULL, name TEXT NOT NULL, ordinal INTEGER NOT NULL,
            serial INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL,
            PRIMARY KEY (kind, app, name, ordinal)
        ) WITHOUT ROWID;
INSERT INTO "records" VALUES('Volume','blog','posts',0,2,'{"id":"vol_2","scope":"blog","applied":{"size_gb":5},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','525742651969b7c768decbdee63722925b6209dd34b88c8e23a18836a5895fa6');
INSERT INTO "records" VALUES('Volume','shop','data',0,1,'{"id":"vol_1","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','21a5a572c959acb48a715bae208352b5dcd11af9ecc810da1d023d6b409faef6');
CREATE TABLE unclaimed (id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "unclaimed" VALUES('vol_9',8);
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',3);
COMMIT;
