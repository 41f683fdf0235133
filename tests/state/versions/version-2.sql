-- A state of schema version 2, as its program left it; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE journal (
            seq INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        );
INSERT INTO "journal" VALUES(1,'r1','run.started','2030-01-01T12:00:00+00:00',NULL,'',1,'{"plan":"p1"}','390f5a04b4a4546e6c7194b63e2ef16400db6ace9e0fdef291533a407880477c');
INSERT INTO "journal" VALUES(2,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"scope":"shop"}','1b5c87622e4381e9c475192cf6f432b9e4673547d47f48d64aa94966e9ae42dd');
INSERT INTO "journal" VALUES(3,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"id":"vol_1"}','3b793d764e4f26bbcd97a05c9b5f903c133a80d3a1c1a268e0e9435022ed6636');
INSERT INTO "journal" VALUES(4,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"scope":"blog"}','b6499b17adf1429691a866f0d22255df78f7cd139dcf660d5ad565990ce3e668');
INSERT INTO "journal" VALUES(5,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"id":"vol_2"}','1a57edf91f12899cb73f5657e0f63a47d13640e3f89f11d28cbe69ad56ca4f54');
INSERT INTO "journal" VALUES(6,'r1','step.intent','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"scope":"org/personal","creates":true}','6cb805a1eb00304b8ba41d5374e1a521daa76980ebf439a3b5286998d6413d34');
INSERT INTO "journal" VALUES(7,'r1','step.unknown','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"error":"timed out"}','1d94729115a3fc7363fe4755a1078c6c87536d9d0e0874e654c7d3d2ba9bb9c8');
INSERT INTO "journal" VALUES(8,'r1','decided','2030-01-01T12:00:00+00:00','Volume/shop/data','',1,'{"unclaimed":"vol_9","step":"x","because":"its outcome came after the call was settled otherwise"}','0fabb180273e598a93be662861a882ef1c6640934a028fa4d6cb31fb6f5461bf');
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'blog',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(3,'shop',1,'anna','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('checks','{"version": 11, "records": 2, "head_seq": 8, "head_hash": "0fabb180273e598a93be662861a882ef1c6640934a028fa4d6cb31fb6f5461bf", "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "7e7c8ba1618663e43ccb664cbc86106a7dac551941a9419812ea5623add9d2aa", "plans_run": "8c24de1f71b822838fe289772b5458d7ef9003841661cce346f849b3ad6f5fb7", "unclaimed": "9c2e49f6455a9551b21167a753745eaa730b0a4a91a928f528771ce668994e09", "leases": "10c6596aa84cef90efc40bc3ccd9f03c64d27e777852d63d62dc3afa1b2fb374", "sqlite_sequence": "3856d48561998379e04fb08929c5bb42fc108d6b8307da584f7d1d3e730e33d0"}}');
INSERT INTO "meta" VALUES('digest','776ca7bb3372f51193399956b26f2065a23fbc1e01c359cba1e7479894b974cc');
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
