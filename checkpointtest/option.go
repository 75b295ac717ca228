package checkpointtest

import (
	"time"

	"github.com/checkpointd/checkpointd/internal/server"
)

// Option changes what the server does where a trigger and the job's own settings do not say.
type Option func(*settings)

type settings struct {
	server.Config

	token string
}

// Timeout is how long a checkpoint may stay pending, one minute by default; 0 is for ever.
func Timeout(d time.Duration) Option { return func(s *settings) { s.CheckpointTimeout = d } }

// Token makes the server ask every caller for this secret, which has all roles. The methods of
// [Server] send it; a worker under test gets it as its Worker.Token.
func Token(secret string) Option { return func(s *settings) { s.token = secret } }

// Interval triggers a checkpoint of each job in this rhythm, at least 50 ms; by default
// nothing triggers by itself.
func Interval(d time.Duration) Option { return func(s *settings) { s.CheckpointInterval = d } }

// RequiredTaskAcks is how many tasks complete a checkpoint, 1 by default.
func RequiredTaskAcks(n int) Option { return func(s *settings) { s.RequiredTaskAcks = n } }

// Keep is how many completed checkpoints of a job retention leaves, 5 by default; 0 is all.
func Keep(n int) Option { return func(s *settings) { s.CheckpointsToKeep = n } }
