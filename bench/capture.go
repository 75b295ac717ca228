package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ackCommand is the command that the server sends to Redis for an acknowledgement, with
// places for another task and another token. It is taken from a running server, so that it
// is always the very script that the server uses.
type ackCommand struct {
	words  []string
	tasks  []int // places of the task
	tokens []int // places of what is random in each call
}

// captureAck lets a server acknowledge for two tasks, and watches what it sends.
func (b *bench) captureAck(ctx context.Context, s *system, checkpoint int64) (ackCommand, error) {
	monitor, err := open(ctx, s.addresses[redisName], appendCommand(nil, "MONITOR"))
	if err != nil {
		return ackCommand{}, err
	}
	defer func() { _ = monitor.Close() }()
	if err := monitor.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return ackCommand{}, fmt.Errorf("watching Redis: %w", err)
	}
	lines := bufio.NewReader(monitor)
	if _, err := lines.ReadString('\n'); err != nil { // +OK: it watches now
		return ackCommand{}, fmt.Errorf("watching Redis: %w", err)
	}
	var seen [2][]string
	tasks := [2]string{"captured-1", "captured-2"}
	for i, task := range tasks {
		_, err := b.call(ctx, "POST", s.url(serverName, fmt.Sprintf("/checkpoints/%d/acks", checkpoint)), strings.NewReader(`{"taskId":"`+task+`"}`))
		if err != nil {
			return ackCommand{}, err
		}
		for seen[i] == nil {
			line, err := lines.ReadString('\n')
			if err != nil {
				return ackCommand{}, fmt.Errorf("watching Redis for the script of an acknowledgement: %w", err)
			}
			words, err := monitored(line)
			if err != nil {
				return ackCommand{}, err
			}
			if len(words) > 0 && strings.EqualFold(words[0], "EVALSHA") && slices.Contains(words, task) {
				seen[i] = words
			}
		}
	}
	if len(seen[0]) != len(seen[1]) {
		return ackCommand{}, errors.New("two acknowledgements are commands of different lengths")
	}
	command := ackCommand{words: seen[0]}
	for i, word := range seen[0] {
		switch other := seen[1][i]; {
		case word == tasks[0] && other == tasks[1]:
			command.tasks = append(command.tasks, i)
		case word != other:
			command.tokens = append(command.tokens, i)
		}
	}
	return command, nil
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// monitored reads the words of a line of MONITOR; a command that a script sent has none.
func monitored(line string) ([]string, error) {
	if strings.Contains(line, " lua] ") {
		return nil, nil
	}
	var words []string
	for _, text := range quoted.FindAllString(line, -1) {
		word, err := strconv.Unquote(text)
		if err != nil {
			return nil, fmt.Errorf("reading a word of MONITOR, %s: %w", text, err)
		}
		words = append(words, word)
	}
	return words, nil
}

// of gives the command for a task, as a call of its own.
func (c ackCommand) of(task string) []any {
	words := make([]any, len(c.words))
	for i, word := range c.words {
		words[i] = word
	}
	for _, i := range c.tasks {
		words[i] = task
	}
	for _, i := range c.tokens {
		words[i] = fmt.Sprintf("%0*d", len(c.words[i]), rand.Int64()) //nolint:gosec // a token has to be another one, not a secret
	}
	return words
}
