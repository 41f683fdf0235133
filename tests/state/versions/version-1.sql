-- A state of schema version 1, as its program left it; its key is 02 32 times.
PRAGMA application_id = 1382248035;
PRAGMA user_version = 1;
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
CREATE TABLE leases (
            number INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL DEFAULT 0, holder TEXT NOT NULL DEFAULT '',
            since TEXT NOT NULL DEFAULT '', released INTEGER NOT NULL DEFAULT 1
        );
INSERT INTO "leases" VALUES(1,'blog',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(2,'org/personal',1,'anna','2030-01-01T12:00:00+00:00',1);
INSERT INTO "leases" VALUES(3,'shop',1,'anna','2030-01-01T12:00:00+00:00',1);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
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
INSERT INTO "records" VALUES('Volume','blog','posts',0,2,'{"id":"vol_2","scope":"blog","applied":{"size_gb":5},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','982095c8c13e771e85e9380416861ada45d4d2c507b6d1d1876d7b81ab391aa3');
INSERT INTO "records" VALUES('Volume','shop','data',0,1,'{"id":"vol_1","scope":"shop","applied":{"size_gb":10},"lifecycle":{"deletion":"retain","snapshot_before":["delete"],"timeout_s":1800},"created_at":"2030-01-01T12:00:00+00:00","source":"manifests/all.yaml","obligations":[],"inferred":false}','188e51a056bc5bf6f5f30d4e447dc367aea0aa2f2945886781afa77e3a6b16fa');
CREATE INDEX leases_held ON leases (scope, epoch) WHERE released = 0;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('leases',3);
COMMIT;
