-- A state of schema version 5 that its program made of one of version 3; its key is 02 32 times.
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
INSERT INTO "heads" VALUES('blog',8,'1276ca0ce54027f85d4fc0a69fef62024b67516f32543a0f4e5ec11751688170',2,1,'345a3888c89301646e08b88d579363c1605ed0aa877145dd37c4564b7ad55ba9');
INSERT INTO "heads" VALUES('new',9,'32932719b295477268aedaeb899d0c9087c129a5163d367ac1a5be59d27140ec',2,0,'047a9f4c64e6110f9c021a83c698dd117fd01a70d91464ca46ece463bb49ddc1');
INSERT INTO "heads" VALUES('shop',10,'ba1a20d952c4c2c828a37fe4ee25b4a491503ec84046f04ac6df2f6bba3ffb4e',3,1,'52a8887f517bd27f9e1f2f90347ba8055984c0c873cd2b2f8b33aa3efb36f7e5');
CREATE TABLE journal (
            row INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        , scope TEXT NOT NULL DEFAULT '', seq INTEGER NOT NULL DEFAULT 0);
INSERT INTO "journal" VALUES(1,'r1','run.started','2030-01-01T12:00:00+00:00',NULL,'',1,'{"plan":"p1"}','faa5b1fcf87ef2dd4bc4f208b0ba541b6926842ed459c7dede9058586f01c790','shop',1);
INSERT INTO "journal" VALUES(2,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"scope":"shop"}','1cf80bcd51182e803c17eb901ed44895b7424ef7926ef3850fb1bfbed5a56263','shop',2);
INSERT INTO "journal" VALUES(3,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"id":"vol_1"}','c8cfb62eaeff4b3f8cfc26bd7849affd26dd0de3023f05bbfda882df3c2c13ef','shop',3);
INSERT INTO "journal" VALUES(4,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"scope":"blog"}','9fa929427cc0c9c24e845e47c0b03f33a5c2c670752d6e49a9408f44f1e03c63','blog',4);
INSERT INTO "journal" VALUES(5,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"id":"vol_2"}','05b443956e7cedcea3ba187a7076aa1377f39b735a2ed048c0544be6cc31f993','blog',5);
INSERT INTO "journal" VALUES(6,'r1','step.intent','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"scope":"org/personal","creates":true}','4b051351bc3c069dd8d77b1fd7c5cde872c2d6d5dc727c0501494c58a83b945d','org/personal',6);
INSERT INTO "journal" VALUES(7,'r1','step.unknown','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"error":"timed out"}','3b8c807911df06dde27fbab26d85bc717c6194ac688cf70f37d64603bc89ba3f','org/personal',7);
INSERT INTO "journal" VALUES(8,'r1','decided','2030-01-01T12:00:00+00:00','Volume/shop/data','',1,'{"unclaimed":"vol_9","step":"x","because":"its outcome came after the call was settled otherwise","scope":"shop"}','1276ca0ce54027f85d4fc0a69fef62024b67516f32543a0f4e5ec11751688170','shop',8);
INSERT INTO "journal" VALUES(9,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/shop/data','s9',1,'{"scope":"shop"}','282700a3f1941480cf88b342e1299f95d3988dc90ade092d59833b8419f5352d','shop',9);
INSERT INTO "journal" VALUES(10,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/shop/data','s9',1,'{}','ba1a20d952c4c2c828a37fe4ee25b4a491503ec84046f04ac6df2f6bba3ffb4e','shop',10);
INSERT INTO "journal" VALUES(11,'r1','decided','2030-01-01T12:00:00+00:00','Volume/shop/data','s10',1,'{}','32932719b295477268aedaeb899d0c9087c129a5163d367ac1a5be59d27140ec','new',9);
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'blog',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(3,'shop',2,'ben','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(4,'new',1,'ben','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('checks','{"version": 20, "rows": 11, "serial": 3, "heads": "8b7d60547ef4e4f3a82a02a152a7e8d839b3abe3d452d5d709e4e4ee3156314f", "trunk_seq": 8, "trunk_hash": "1276ca0ce54027f85d4fc0a69fef62024b67516f32543a0f4e5ec11751688170", "trunk_serial": 2, "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "7e7c8ba1618663e43ccb664cbc86106a7dac551941a9419812ea5623add9d2aa", "plans_run": "8c24de1f71b822838fe289772b5458d7ef9003841661cce346f849b3ad6f5fb7", "unclaimed": "9c2e49f6455a9551b21167a753745eaa730b0a4a91a928f528771ce668994e09", "leases": "44896e7974e0de47a5b54358044c608b538ba0d0afc3312b695d06737e8c57ea", "sqlite_sequence": "302cfdb07f3b1ea66b41095b49d3469bfc9c71a8e95ea19d26941051d894dadb", "facts": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "half_moved": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archived": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archive_end": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}}');
INSERT INTO "meta" VALUES('digest','9a29624c9b59b35315d253b50413a101180416fec2405ab033e852b7bac4dc30');
INSERT INTO "meta" VALUES('lineage','01010101-0101-4101-8101-010101010101');
CREATE TABLE open_intents (
            run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, row INTEGER NOT NULL,
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
INSERT INTO "records" VALUES('Volume','shop','data',0,3,'{"id":"vol_data","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"","obligations":[],"inferred":false}','126ef57a989dfeae67863bf2b454bea51ef64fd4c032759b9b542f08074f9c48');
CREATE TABLE unclaimed (id TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "unclaimed" VALUES('vol_9',8);
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
CREATE UNIQUE INDEX chains ON journal (scope, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',4);
COMMIT;
