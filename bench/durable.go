package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/checkpointd/checkpointd/bench/load"
	"github.com/checkpointd/checkpointd/bench/report"
)

// durable compares acknowledgements on the embedded store with what the disk can do, and
// with etcd.
func (b *bench) durable(ctx context.Context) error {
	if memory, err := inMemory(b.folder); err != nil {
		return err
	} else if memory {
		b.miss("D1, D2: " + b.dir + " is in memory, where a sync costs nothing; name another folder with -dir")
		return nil
	}
	targets := []target{
		{"disk alone, 4 KiB and fdatasync", 1, b.loadDisk},
		{"server embedded, one checkpoint", 64, b.loadEmbedded},
		{"server embedded, one checkpoint", 256, b.loadEmbedded},
	}
	etcd := installed(etcdName)
	if etcd {
		targets = append(targets, target{"etcd put", 64, b.loadEtcd})
	} else {
		b.miss("D2: etcd is not installed")
	}
	results, err := b.interleave(ctx, targets)
	if err != nil {
		return err
	}
	disk := results["disk alone, 4 KiB and fdatasync, 1"].perSecond()
	few, many := results["server embedded, one checkpoint, 64"].perSecond(), results["server embedded, one checkpoint, 256"].perSecond()
	b.report.Add(report.Row{
		Goal: "D1", Metric: "durable acks/s ÷ fdatasync/s, 64 connections", AtLeast: 4, Samples: report.Ratios(few, disk),
	})
	b.report.Add(report.Row{
		Goal: "D1", Metric: "durable acks/s ÷ fdatasync/s, 256 connections", AtLeast: 6, Samples: report.Ratios(many, disk),
	})
	if etcd {
		b.report.Add(report.Row{
			Goal: "D2", Metric: "durable acks/s ÷ etcd v3/kv/put over HTTP, 64 connections", AtLeast: 2.5,
			Samples: report.Ratios(few, results["etcd put, 64"].perSecond()),
		})
	}
	return nil
}

// inMemory tells whether a folder is on a file system without a disk.
func inMemory(folder string) (bool, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(folder, &fs); err != nil {
		return false, fmt.Errorf("looking at %s: %w", folder, err)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC, nil
}

func (b *bench) loadEmbedded(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, onDisk())
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	return b.runAcks(ctx, s, 1, connections)
}

func (b *bench) loadEtcd(ctx context.Context, connections int) (loaded, error) {
	s, err := b.start(ctx, withEtcd)
	if err != nil {
		return loaded{}, err
	}
	defer s.stop()
	return b.run(ctx, s, etcdName, load.Options{Connections: connections, Next: etcdPuts()})
}

// loadDisk writes 4 KiB and syncs, in turn, over a file that has its blocks already, so that
// nothing but the data has to reach the disk.
func (b *bench) loadDisk(ctx context.Context, _ int) (loaded, error) {
	const block, blocks = 4 << 10, 4 << 10
	path := filepath.Join(b.folder, "disk")
	file, err := os.Create(path)
	if err != nil {
		return loaded{}, fmt.Errorf("making a file: %w", err)
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(path)
	}()
	data := make([]byte, block*blocks)
	if _, err := file.Write(data); err != nil {
		return loaded{}, fmt.Errorf("filling a file: %w", err)
	}
	if err := file.Sync(); err != nil {
		return loaded{}, fmt.Errorf("filling a file: %w", err)
	}
	nothing := &system{}
	before, began := read(nothing), time.Now()
	writes := 0
	for ; time.Since(began) < b.duration/2 && ctx.Err() == nil; writes++ {
		if _, err := file.WriteAt(data[:block], int64(writes%blocks*block)); err != nil {
			return loaded{}, fmt.Errorf("writing a block: %w", err)
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return loaded{}, fmt.Errorf("syncing a block: %w", err)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return loaded{}, err
	}
	return b.between(before, read(nothing), load.Result{Requests: int64(writes), Elapsed: time.Since(began)})
}
