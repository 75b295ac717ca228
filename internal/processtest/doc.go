// Package processtest holds the built server to what it promises as a process: it starts
// the real binary, kills it, takes its Redis away and gives it back, and looks from
// outside, through HTTP, at what is left. It has nothing but tests.
//
// Environment variables turn the tests into the full show:
//
//	CHECKPOINTD_KILL_ROUNDS  how often the embedded server is killed under load (5)
//	CHECKPOINTD_FAILOVERS    how often a master of Redis is killed under load (1)
//	CHECKPOINTD_BIG_MIB      size of the large part in MiB (48); from 512 on its reader
//	                         is slowed down to 20 MB/s
package processtest
