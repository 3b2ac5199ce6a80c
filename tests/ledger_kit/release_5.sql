CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
CREATE TABLE answers (
	"key" VARCHAR(255) NOT NULL, 
	fingerprint VARCHAR(64) NOT NULL, 
	at_us BIGINT NOT NULL, 
	request_id VARCHAR(64), 
	status INTEGER, 
	body TEXT, digest VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "answers" VALUES('k1','digest',1000000000,'r6',NULL,NULL,'4da4126c885a052e');
INSERT INTO "answers" VALUES('k2','digest 2',1000000000,NULL,200,'{"id": "h"}','29a44d5bc7874759');
INSERT INTO "answers" VALUES('k3','digest',1001000000,NULL,200,'{"nodes": ["n04"]}','ffdf62a270d0fc03');
CREATE TABLE base (
	id INTEGER NOT NULL, 
	seq BIGINT NOT NULL, 
	at_us BIGINT NOT NULL, 
	serial BIGINT NOT NULL, 
	records TEXT NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, head VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "base" VALUES(1,12,1002000000,12,'{"nodes":[["n01","OD_ALLOC",1000000000,"r6",3,[],""],["n02","OD_RESERVE",1000000000,"r8",4,[],""],["n03","OD_RESERVE",1000000000,"r8",3,[],""],["n04","RECLAIMING",1002000000,"r8",4,[],""]],"requests":[["r6",1,1000000000,1600000000,5,"granted",["n01"],1000000000,"",1,"",false,[],[],null,true,null,false,null],["r8",4,1000000000,1600000000,7,"waiting",[],null,"",0,"",false,[],[],null,false,null,false,null]],"reserves":[["h9",1,1060000000,1660000000,1000000000,8,0,false,0,""]]}','b25c405cd17e0ccc','bd7d750b6d3aa019359a34b9f13be763');
CREATE TABLE events (
	seq BIGINT NOT NULL, 
	at_us BIGINT NOT NULL, 
	serial BIGINT NOT NULL, 
	event_id VARCHAR(64) NOT NULL, 
	kind VARCHAR(32) NOT NULL, 
	body TEXT NOT NULL, epoch BIGINT DEFAULT '0' NOT NULL, changes TEXT DEFAULT '{}' NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (seq)
);
INSERT INTO "events" VALUES(1,1000000000,0,'e1','started','{"version": "0.1.0", "epoch": 1, "algorithm": "Basic"}',0,'{}','');
INSERT INTO "events" VALUES(2,1000000000,1,'e2','nodes_observed','{"states":{"n01":["idle",1000000000],"n02":["idle",1000000000],"n03":["idle",1000000000],"n04":["idle",1000000000]},"moved":[["n01","DOWN","RECLAIMING"],["n02","DOWN","OA_IDLE"],["n03","DOWN","OA_IDLE"],["n04","DOWN","OA_IDLE"]]}',0,'{}','');
INSERT INTO "events" VALUES(3,1000000000,2,'e2','nodes_reclaimed','{"done":["n01"],"busy":[],"unclear":[],"moved":[["n01","RECLAIMING","OD_RESERVE"]]}',0,'{}','');
INSERT INTO "events" VALUES(4,1000000000,3,'e4','timer_fired','{}',0,'{}','');
INSERT INTO "events" VALUES(5,1000000000,4,'e5','nodes_updated','{"busy":["n04"],"idle":[],"job":"1.server","remaining_us":null,"moved":[["n04","OA_IDLE","OA_BUSY"]]}',0,'{}','');
INSERT INTO "events" VALUES(6,1000000000,5,'e6','nodes_requested','{"request_id":"r6","count":1,"wait_us":null,"moved":[["n01","OD_RESERVE","OD_ALLOC"],["n02","OA_IDLE","RECLAIMING"]],"decided":{"r6":"granted"}}',0,'{}','');
INSERT INTO "events" VALUES(7,1000000000,6,'e6','nodes_reclaimed','{"done":["n02"],"busy":[],"unclear":[],"moved":[["n02","RECLAIMING","OD_RESERVE"]]}',0,'{}','');
INSERT INTO "events" VALUES(8,1000000000,7,'e8','nodes_requested','{"request_id":"r8","count":4,"wait_us":null,"moved":[["n03","OA_IDLE","RECLAIMING"]]}',0,'{}','');
INSERT INTO "events" VALUES(9,1000000000,8,'e9','reserve_added','{"reserve_id":"h9","count":1,"by_us":1060000000}',0,'{}','');
INSERT INTO "events" VALUES(10,1000000000,9,'e8','nodes_reclaimed','{"done":["n03"],"busy":[],"unclear":[],"moved":[["n03","RECLAIMING","OD_RESERVE"]]}',0,'{}','');
INSERT INTO "events" VALUES(11,1001000000,11,'e11','test','{}',2,'{"nodes":[["n04","OA_IDLE",1001000000,null,3,[]]]}','');
INSERT INTO "events" VALUES(12,1002000000,12,'e12','test','{}',2,'{"nodes":[["n04","RECLAIMING",1002000000,"r8",4,[]]]}','');
INSERT INTO "events" VALUES(13,1003000000,13,'e13','test','{}',3,'{"nodes":[["n03","HELD",1003000000,null,4,[],"",""]]}','acc9324765f9fd34db14c463f97b0429');
INSERT INTO "events" VALUES(14,1004000000,14,'e14','test','{}',3,'{"reserves":[["h14",2,2000000000,2600000000,1004000000,14,0,false,0,"carol"]]}','dbcf39615519fb1d78e24ed500eb5d9e');
INSERT INTO "events" VALUES(15,1005000000,15,'e15','nodes_observed','{}',4,'{"nodes":[["n01","OD_ALLOC",1000000000,"r6",4,[],"","",1005000000]]}','886ea303a62d7740dc2e1a48a085bc09');
CREATE TABLE nodes (
	name VARCHAR(255) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	since_us BIGINT NOT NULL, 
	held_for VARCHAR(64), 
	generation BIGINT NOT NULL, 
	jobs TEXT NOT NULL, contested TEXT DEFAULT '' NOT NULL, doubt TEXT DEFAULT '' NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, down_since_us BIGINT, 
	PRIMARY KEY (name)
);
INSERT INTO "nodes" VALUES('n01','OD_ALLOC',1000000000,'r6',4,'[]','','','0f1a2d20e7759979',1005000000);
INSERT INTO "nodes" VALUES('n02','OD_RESERVE',1000000000,'r8',4,'[]','','','297a7612cdf7778f',NULL);
INSERT INTO "nodes" VALUES('n03','HELD',1003000000,NULL,4,'[]','','','6cb9d26f7814744a',NULL);
INSERT INTO "nodes" VALUES('n04','RECLAIMING',1002000000,'r8',4,'[]','','','afa51487ef3f7235',NULL);
CREATE TABLE requests (
	request_id VARCHAR(64) NOT NULL, 
	count BIGINT NOT NULL, 
	arrived_us BIGINT NOT NULL, 
	deadline_us BIGINT NOT NULL, 
	"order" BIGINT NOT NULL, 
	status VARCHAR(16) NOT NULL, 
	nodes TEXT NOT NULL, 
	decided_us BIGINT, 
	reason TEXT NOT NULL, generation BIGINT DEFAULT '0' NOT NULL, owner VARCHAR(255) DEFAULT '' NOT NULL, at_once BOOLEAN DEFAULT false NOT NULL, candidates TEXT DEFAULT '[]' NOT NULL, exclude TEXT DEFAULT '[]' NOT NULL, lease_us BIGINT, confirmed BOOLEAN DEFAULT false NOT NULL, due_us BIGINT, overdue BOOLEAN DEFAULT false NOT NULL, ended_us BIGINT, open BOOLEAN DEFAULT false NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, "replace" BOOLEAN DEFAULT false NOT NULL, replaces VARCHAR(64) DEFAULT '' NOT NULL, lost TEXT DEFAULT '[]' NOT NULL, 
	PRIMARY KEY (request_id), 
	UNIQUE ("order")
);
INSERT INTO "requests" VALUES('r6',1,1000000000,1600000000,5,'granted','["n01"]',1000000000,'',1,'',false,'[]','[]',NULL,true,NULL,false,NULL,true,'aec243a283e2ab6b',false,'','[]');
INSERT INTO "requests" VALUES('r8',4,1000000000,1600000000,7,'waiting','[]',NULL,'',0,'',false,'[]','[]',NULL,false,NULL,false,NULL,true,'1b0caa8f43dea8d7',false,'','[]');
CREATE TABLE reserves (
	reserve_id VARCHAR(64) NOT NULL, 
	count BIGINT NOT NULL, 
	by_us BIGINT NOT NULL, 
	ends_us BIGINT NOT NULL, 
	added_us BIGINT NOT NULL, 
	"order" BIGINT NOT NULL, 
	used BIGINT NOT NULL, 
	ended BOOLEAN NOT NULL, generation BIGINT DEFAULT '0' NOT NULL, owner VARCHAR(255) DEFAULT '' NOT NULL, digest VARCHAR(32) DEFAULT '' NOT NULL, 
	PRIMARY KEY (reserve_id), 
	UNIQUE ("order")
);
INSERT INTO "reserves" VALUES('h9',1,1060000000,1660000000,1000000000,8,0,false,0,'','3e6dc1f669b8ae69');
INSERT INTO "reserves" VALUES('h14',2,2000000000,2600000000,1004000000,14,0,false,0,'carol','4b539c6a2e992f40');
CREATE TABLE writer (
	id INTEGER NOT NULL, 
	epoch BIGINT NOT NULL, 
	holder VARCHAR(255) NOT NULL, 
	renewals BIGINT NOT NULL, 
	seq BIGINT NOT NULL, ledger_id VARCHAR(8) DEFAULT '' NOT NULL, head VARCHAR(32) DEFAULT '' NOT NULL, doubt TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "writer" VALUES(1,4,'',0,15,'8aaf102d','886ea303a62d7740dc2e1a48a085bc09','');
CREATE INDEX requests_by_arrival ON requests (arrived_us);
CREATE INDEX requests_by_status ON requests (status);
CREATE INDEX answers_by_age ON answers (at_us);
CREATE INDEX requests_by_owner ON requests (owner);
CREATE INDEX requests_by_open ON requests (open);
