package redisstore

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// firstRelisten and longestRelisten are the pauses before a lost subscription is renewed.
	firstRelisten   = 100 * time.Millisecond
	longestRelisten = time.Second
	// listenSilence is after how much silence the connection is tried, and after how much
	// more it is given up: a connection may be dead without either side knowing.
	listenSilence = 3 * time.Second
)

// Listen calls wake for each change that a script publishes. What was published while nobody
// listened is lost, so every new subscription wakes for all jobs.
func (s *Store) Listen(ctx context.Context, wake func(job string)) {
	pause := firstRelisten
	for {
		if s.listen(ctx, wake) {
			pause = firstRelisten
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, longestRelisten)
	}
}

// listen subscribes and passes on what comes until the connection fails or ctx ends. It tells
// whether the subscription stood. The library would subscribe again by itself, but then at
// its own pace, and as often as it is asked.
func (s *Store) listen(ctx context.Context, wake func(job string)) (stood bool) {
	subscription := s.client.Subscribe(ctx, wakeChannel(s.prefix))
	// Reading does not end with ctx, but with the connection.
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = subscription.Close()
	})
	defer func() {
		if stop() {
			_ = subscription.Close()
		} else {
			<-closed
		}
	}()
	tried := false
	for ctx.Err() == nil {
		message, err := subscription.ReceiveTimeout(ctx, listenSilence)
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || tried || !stood {
				return stood
			}
			if subscription.Ping(ctx) != nil {
				return stood
			}
			tried = true
			continue
		}
		tried = false
		switch m := message.(type) {
		case *redis.Subscription:
			stood = true
			wake("")
		case *redis.Message:
			wake(m.Payload)
		}
	}
	return stood
}
