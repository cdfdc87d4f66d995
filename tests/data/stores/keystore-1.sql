-- The key store of ibkeys 0.1.0 (schema 1): made by that version, written down with sqlite3's .dump.
PRAGMA application_id = 1229081419;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE keys (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                node_guid TEXT,
                port_guid TEXT NOT NULL,
                port INTEGER,
                m_key BLOB NOT NULL CHECK (typeof(m_key) = 'blob' AND length(m_key) = 8),
                m_key_protect_bits INTEGER,
                m_key_lease_period INTEGER,
                state TEXT NOT NULL CHECK (state IN ('current', 'pending', 'former', 'imported')),
                since TEXT NOT NULL,
                note TEXT NOT NULL DEFAULT '',
                replaces INTEGER REFERENCES keys (id)
            );
INSERT INTO "keys" VALUES(1,'0x0002c90300a1b2c2','0xe002c90300a1b2c3',1,X'A1A2A3A4A5A6A7A8',2,60,'former','2026-11-20T12:00:00Z','',NULL);
INSERT INTO "keys" VALUES(2,'0x0002c90300a1b2c2','0xe002c90300a1b2c3',1,X'B1B2B3B4B5B6B7B8',2,60,'current','2026-11-20T12:00:00Z','',1);
INSERT INTO "keys" VALUES(3,'0x0002c90300a1b2c2','0xe002c90300a1b2c3',1,X'FFFFFFFFFFFFFFFF',3,90,'pending','2026-11-20T12:00:00Z','',2);
INSERT INTO "keys" VALUES(4,NULL,'0x0000000000000010',NULL,X'A1A2A3A4A5A6A7A8',NULL,NULL,'imported','2026-11-20T12:00:00Z','guid2mkey',NULL);
INSERT INTO "keys" VALUES(5,'0x0000000000000020','0x0000000000000020',0,X'0000000000000000',0,0,'current','2026-11-20T12:00:00Z','',NULL);
INSERT INTO "keys" VALUES(6,'0x0000000000000020','0x0000000000000020',0,X'B1B2B3B4B5B6B7B8',1,30,'pending','2026-11-20T12:00:00Z','',5);
CREATE TABLE links (
                node_guid TEXT NOT NULL,
                port INTEGER NOT NULL,
                peer_guid TEXT NOT NULL,
                peer_port INTEGER NOT NULL,
                seen TEXT NOT NULL,
                PRIMARY KEY (node_guid, port)
            ) WITHOUT ROWID;
INSERT INTO "links" VALUES('0x0000000000000020',1,'0xe002c90300a1b2c3',1,'2026-11-20T12:00:00Z');
INSERT INTO "links" VALUES('0x0000000000000020',3,'0x0000000000000020',3,'2026-11-20T12:00:00Z');
INSERT INTO "links" VALUES('0xe002c90300a1b2c3',1,'0x0000000000000020',1,'2026-11-20T12:00:00Z');
CREATE UNIQUE INDEX one_current ON keys (port_guid) WHERE state = 'current';
CREATE UNIQUE INDEX one_pending ON keys (port_guid) WHERE state = 'pending';
CREATE INDEX keys_of_port ON keys (port_guid);
CREATE INDEX links_of_peer ON links (peer_guid, peer_port);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('keys',6);
COMMIT;
