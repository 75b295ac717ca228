package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// writeChunk stores a chunk of an upload. Like a script that reads it may run twice
// unnoticed, and is sent again until its time is over.
func (u *upload) writeChunk(ctx context.Context, index int, chunk []byte) error {
	done, err := u.store.bulk(ctx)
	if err != nil {
		return err
	}
	defer done()
	if u.failure() != nil {
		return nil // another chunk has ended the upload meanwhile
	}
	value, _, err := u.store.insist(ctx, writeChunkScript.verb, reads, len(chunk), false, func(ctx context.Context) (any, bool, error) {
		return u.sendChunk(ctx, index, chunk)
	})
	if err != nil {
		return err
	}
	return u.storedChunk(value)
}

// sendChunk sends a chunk once. Through a script its bytes would be copied into Lua and out of
// it again, which takes Redis twice as long as all the rest; so the script only makes room
// under the chunk's name, and a SET in the same transaction fills it, which does nothing
// where there is no such room. sent tells whether the script reached the connection.
func (u *upload) sendChunk(ctx context.Context, index int, chunk []byte) (value any, sent bool, err error) {
	keys, sc := u.store.keys(u.call.Job), u.store.form(writeChunkScript)
	node, err := u.store.client.node(ctx, keys.job())
	if err != nil {
		return nil, false, err
	}
	clock := &sentMark{text: u.store.now()}
	send := func(script func(p redis.Pipeliner, keys []string, args []any) *redis.Cmd) (any, error) {
		var room *redis.Cmd
		var fill *redis.BoolCmd
		_, err := node.TxPipelined(ctx, func(p redis.Pipeliner) error {
			room = script(p, []string{keys.job()}, []any{clock, decimal(u.call.ID), u.call.Token, index, len(chunk)})
			fill = p.SetXX(ctx, keys.chunk(u.call.ID, u.call.Token, index), chunk, 0)
			return nil
		})
		return room.Val(), chunkError(room.Err(), fill.Err(), err)
	}
	value, err = send(func(p redis.Pipeliner, keys []string, args []any) *redis.Cmd {
		return p.EvalSha(ctx, sc.text.Hash(), keys, args...)
	})
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		clock.written = false
		value, err = send(func(p redis.Pipeliner, keys []string, args []any) *redis.Cmd {
			return sc.text.Eval(ctx, p, keys, args...)
		})
	}
	return value, clock.written, err
}

// chunkError finds the reason in the errors of a chunk's script, its SET and their
// transaction. A SET that found no room is none: the script says why.
func chunkError(room, fill, transaction error) error {
	if errors.Is(fill, redis.Nil) {
		fill = nil
	}
	for _, err := range []error{room, fill} {
		if err != nil && !redis.HasErrorPrefix(err, "EXECABORT") { // which only says that there is a reason
			return err
		}
	}
	if room == nil && fill == nil {
		return nil
	}
	return transaction
}

// storedChunk reads the reply of the script.
func (u *upload) storedChunk(value any) error {
	r, err := parseReply(writeChunkScript.verb, u.call.Job, value)
	if err == nil && r.word != wordOK {
		err = u.refusal(writeChunkScript.verb, r)
	}
	return err
}
