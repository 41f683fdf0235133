-- A state of schema version 6, as its program left it; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 6;
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
INSERT INTO "heads" VALUES('blog',2,'25a4e50aa389eef23992efb21c12121f000c8d8ca50e84b06608424afacfd042',1,1,'46da5918a1cecccea183c8420fbc6de2b60b473aacd79a5f8bcb29b52aca8064');
INSERT INTO "heads" VALUES('org/personal',2,'44edfd1e79b6f317754988666f282ea5af914ea1099e67e23ccd863c44eae758',1,0,'92113fb75408a17e57f033d8a576e3eec73723da1db82425651e16ac471ff95b');
INSERT INTO "heads" VALUES('shop',4,'7de835422ff425d9d246b2cd8cd06fad5b9ef2365133bb56e87410f0424d59a3',1,1,'02c5f9ea08290a1f25c058c23a78f9380a45a5687c8ac77b30e722f106faf17e');
CREATE TABLE journal (
        row INTEGER PRIMARY KEY, run TEXT NOT NULL, event TEXT NOT NULL, at TEXT NOT NULL,
        address TEXT, step TEXT NOT NULL, attempt INTEGER NOT NULL, data TEXT NOT NULL,
        hash TEXT NOT NULL, scope TEXT NOT NULL, seq INTEGER NOT NULL
    );
INSERT INTO "journal" VALUES(1,'r1','run.started','2030-01-01T12:00:00+00:00',NULL,'',1,'{"plan":"p1"}','faa5b1fcf87ef2dd4bc4f208b0ba541b6926842ed459c7dede9058586f01c790','shop',1);
INSERT INTO "journal" VALUES(2,'r1','step.intent','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"scope":"shop"}','1cf80bcd51182e803c17eb901ed44895b7424ef7926ef3850fb1bfbed5a56263','shop',2);
INSERT INTO "journal" VALUES(3,'r1','step.done','2030-01-01T12:00:00+00:00','Volume/shop/data','Volume/shop/data#create',1,'{"id":"vol_1"}','c8cfb62eaeff4b3f8cfc26bd7849affd26dd0de3023f05bbfda882df3c2c13ef','shop',3);
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
INSERT INTO "meta" VALUES('checks','{"version": 17, "rows": 8, "serial": 1, "heads": "dbb192b9fe00786c1f3454dcefac4b098788107d471a860021d0635278e56b3d", "least_serial": 0, "key": "75877bb41d393b5fb8455ce60ecd8dda001d06316496b14dfa7f895656eeca4a", "tables": {"open_intents": "7e7c8ba1618663e43ccb664cbc86106a7dac551941a9419812ea5623add9d2aa", "plans_run": "8c24de1f71b822838fe289772b5458d7ef9003841661cce346f849b3ad6f5fb7", "unclaimed": "9c2e49f6455a9551b21167a753745eaa730b0a4a91a928f528771ce668994e09", "half_moved": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "facts": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archived": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "archive_end": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945", "leases": "10c6596aa84cef90efc40bc3ccd9f03c64d27e777852d63d62dc3afa1b2fb374", "sqlite_sequence": "d6ff644cf83eb5d292d15225673558af8e3e7d7da222c06d9cd735c695ec49ab"}}');
INSERT INTO "meta" VALUES('digest','f092e08e0b65719fb3997c6f4bbfa7dc6810fdc3d665c22e2b29e8d7a7d4e72a');
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
INSERT INTO "records" VALUES('Volume','blog','posts',0,1,'{"id":"vol_2","scope":"blog","applied":{"size_gb":5},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','e2fb568319ab21aeb2cb6848ae86f952946e50ffba82529c7c69dcd6d7617938');
INSERT INTO "records" VALUES('Volume','shop','data',0,1,'{"id":"vol_1","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800,"restart":"ask"},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','21a5a572c959acb48a715bae208352b5dcd11af9ecc810da1d023d6b409faef6');
CREATE TABLE unclaimed (id TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO "unclaimed" VALUES('vol_9',8);
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
CREATE UNIQUE INDEX chains ON journal (scope, seq);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',6);
COMMIT;
