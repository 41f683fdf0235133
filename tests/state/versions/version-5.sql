-- A state of schema version 5, as its program left it, some rows in its archive; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 5;
BEGIN TRANSACTION;
CREATE TABLE archive (first INTEGER PRIMARY KEY, plans TEXT NOT NULL, body BLOB NOT NULL);
INSERT INTO "archive" VALUES(1,'["p1"]',X'789CAD91CF4EC3300C87EF3C46385298E3FC69BAE7405C3684E2D816934A5BAD1D17C4BB93954DE280382159961DE5277D9FBCB38D995FC7C93475385A53DB697898977C5C84EB86E0E01E6CAD478B5B805A776B37CD70EAFBC6ACC18FBD99FA3CECCDB60E766F3E6B52730E64B5686A4591D953F18A900828076F2976189347611FBAD2B2B07410524851C196B603F37CB3C32B1C5EE0E645A687C3B0C8B0FC0D679EC6FEF4269B737CC379C9BF3CDD96A3E445AE067319275915CE3FBE256CC5072A1CAC4D28095CB1AD5007B662FBD4056A3D7AD1B6BA88BA1440C9929270C821627467097795703F25781CE4DF150EBCF2BF8FFDCBE50A2515A5889245D593D3BA168CC46DF25D56658CCCC0E2009D422052CE2921AB2B58AC13AD025F4CB69B03');
CREATE TABLE archive_end (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "archive_end" VALUES('ends','{"shop": [3, "c8cfb62eaeff4b3f8cfc26bd7849affd26dd0de3023f05bbfda882df3c2c13ef"]}');
INSERT INTO "archive_end" VALUES('half_moved','{}');
INSERT INTO "archive_end" VALUES('kinds','["Volume"]');
INSERT INTO "archive_end" VALUES('new','false');
INSERT INTO "archive_end" VALUES('open_intents','[]');
INSERT INTO "archive_end" VALUES('platform','""');
INSERT INTO "archive_end" VALUES('rows','3');
INSERT INTO "archive_end" VALUES('trunk','[0, "01010101-0101-4101-8101-010101010101"]');
INSERT INTO "archive_end" VALUES('unclaimed','{}');
CREATE TABLE archived (
            first INTEGER PRIMARY KEY, last INTEGER NOT NULL, plans TEXT NOT NULL, body TEXT NOT NULL
        );
INSERT INTO "archived" VALUES(1,3,'a49ba8bb2e513b949be40d114a144ced7ad3852164005c4ad1878e10049b787a','023b689220e18f3bbdd1fe02378e743c31fbd644cfe4634066bff2c2142e8b5c');
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE half_moved (source TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE heads (
            scope TEXT PRIMARY KEY, seq INTEGER NOT NULL, hash TEXT NOT NULL, serial INTEGER NOT NULL,
            records INTEGER NOT NULL, digest TEXT NOT NULL
        ) WITHOUT ROWID;
INSERT INTO "heads" VALUES('blog',2,'25a4e50aa389eef23992efb21c12121f000c8d8ca50e84b06608424afacfd042',1,1,'46da5918a1cecccea183c8420fbc6de2b60b473aacd79a5f8bcb29b52aca8064');
INSERT INTO "heads" VALUES('org/personal',2,'44edfd1e79b6f317754988666f282ea5af914ea1099e67e23ccd863c44eae758',0,0,'ba7327c1810b5cd632ff80bae74847a8e7e5a61ff3cb941546ecfd5536e0b30f');
INSERT INTO "heads" VALUES('shop',4,'7de835422ff425d9d246b2cd8cd06fad5b9ef2365133bb56e87410f0424d59a3',1,1,'02c5f9ea08290a1f25c058c23a78f9380a45a5687c8ac77b30e722f106faf17e');
CREATE TABLE journal (
            row INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
            address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
            hash TEXT NOT NULL
        , scope TEXT NOT NULL DEFAULT '', seq INTEGER NOT NULL DEFAULT 0);
INSERT INTO "journal" VALUES(4,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"scope":"blog"}','496b6dbed4803ba0dbfc1bafdf06e78420d7da72975f264771f78ab192812232','blog',1);
INSERT INTO "journal" VALUES(5,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/blog/posts','Volume/blog/posts#create',1,'{"id":"vol_2"}','25a4e50aa389eef23992efb21c12121f000c8d8ca50e84b06608424afacfd042','blog',2);
INSERT INTO "journal" VALUES(6,'r1','step.intent','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"scope":"org/personal","creates":true}','a3e6bd1aca122e0878798a8672c74250eb9ba3e5ede7fc32f0e916fb80dee95a','org/personal',1);
INSERT INTO "journal" VALUES(7,'r1','step.unknown','2030-01-01T12:00:00+00:00','PostgresCluster/orders','PostgresCluster/orders#create',1,'{"error":"timed out"}','44edfd1e79b6f317754988666f282ea5af914ea1099e67e23ccd863c44eae758','org/personal',2);
INSERT INTO "journal" VALUES(8,'r1','decided','2030-01-01T12:00:00+00:00','Volume/shop/data','',1,'{"unclaimed":"vol_9","step":"x","because":"its outcome came after the call was settled otherwise","scope":"shop"}','7de835422ff425d9d246b2cd8cd06fad5b9ef2365133bb56e87410f0424d59a3','shop',4);
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'blog',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(3,'shop',1,'anna','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
INSERT INTO "meta" VALUES('checks','{"version": 16, "rows": 8, "serial": 1, "heads": "04137ac42b0333c3fa43a1bf317daec3a83692c31d2df5f0039f49fb68a624f1", "trunk_seq": 0, "trunk_hash": "01010101-0101-4101-8101-010101010101", "trunk_serial": 0, "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "7e7c8ba1618663e43ccb664cbc86106a7dac551941a9419812ea5623add9d2aa", "plans_run": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "unclaimed": "9c2e49f6455a9551b21167a753745eaa730b0a4a91a928f528771ce668994e09", "leases": "10c6596aa84cef90efc40bc3ccd9f03c64d27e777852d63d62dc3afa1b2fb374", "sqlite_sequence": "3856d48561998379e04fb08929c5bb42fc108d6b8307da584f7d1d3e730e33d0", "facts": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "half_moved": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archived": "a383fa42ec428316517207f67f322caf76040f06107b0509070ae38e41fd59a2", "archive_end": "517df4a92c2218e73e56641ffead8bc91d1d167f6acc39f312bf0ce46ca2ed3a"}}');
INSERT INTO "meta" VALUES('digest','bfc527473f23d68c13ed874d59e074d4774a3b842dc20e6805e41a8b63321a49');
INSERT INTO "meta" VALUES('lineage','01010101-0101-4101-8101-010101010101');
CREATE TABLE open_intents (
            run TEXT NOT NULL, step TEXT NOT NULL, attempt INTEGER NOT NULL, row INTEGER NOT NULL,
            PRIMARY KEY (run, step, attempt)
        ) WITHOUT ROWID;
INSERT INTO "open_intents" VALUES('r1','PostgresCluster/orders#create',1,6);
CREATE TABLE plans_run (plan TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE records (
            kind TEXT NOT NULL, app TEXT NOT NULL, name TEXT NOT NULL, ordinal INTEGER NOT NULL,
            serial INTEGER NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL,
            PRIMARY KEY (kind, app, name, ordinal)
        ) WITHOUT ROWID;
INSERT INTO "records" VALUES('Volume','blog','posts',0,1,'{"id":"vol_2","scope":"blog","applied":{"size_gb":5},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','e2fb568319ab21aeb2cb6848ae86f952946e50ffba82529c7c69dcd6d7617938');
INSERT INTO "records" VALUES('Volume','shop','data',0,1,'{"id":"vol_1","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','21a5a572c959acb48a715bae208352b5dcd11af9ecc810da1d023d6b409faef6');
CREATE TABLE unclaimed (id TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "unclaimed" VALUES('vol_9',8);
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
CREATE UNIQUE INDEX chains ON journal (scope, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',3);
COMMIT;
