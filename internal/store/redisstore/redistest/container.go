package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
)

// errNoEngine says that there is no container engine to ask.
var errNoEngine = errors.New("no container engine answers")

func isNoEngine(err error) bool { return errors.Is(err, errNoEngine) }

// engineWithin is how long the engine may take to start a container: minutes, where it
// builds images or runs other tests at the same time.
const engineWithin = 3 * time.Minute

// startContainer starts a Redis from an image that is already on this machine, or that
// the engine can pull.
func startContainer(image string) (url string, finish func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineWithin)
	defer cancel()
	provider, err := testcontainers.NewDockerProvider()
	if err == nil {
		err = provider.Health(ctx)
		_ = provider.Close()
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNoEngine, err)
	}
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithCmd("redis-server", "--save", "", "--appendonly", "no", "--protected-mode", "no"),
		testcontainers.WithExposedPorts("6379/tcp"),
	)
	finish = func() { _ = testcontainers.TerminateContainer(container) }
	if err != nil {
		finish()
		return "", nil, fmt.Errorf("start a container of %s: %w", image, err)
	}
	address, err := reachable(ctx, container)
	if err != nil {
		finish()
		return "", nil, fmt.Errorf("find the port of the container of %s: %w", image, err)
	}
	return address, finish, nil
}

// reachable picks the address at which the container answers. Where the tests run in a
// container themselves, testcontainers takes the engine for one outside of it and names
// the gateway, although the engine may be a neighbour whose ports are on 127.0.0.1.
func reachable(ctx context.Context, container *testcontainers.DockerContainer) (string, error) {
	endpoint, err := container.PortEndpoint(ctx, "6379/tcp", "")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", err
	}
	candidates := []string{endpoint, net.JoinHostPort("127.0.0.1", port)}
	answers := make(chan string, len(candidates))
	for _, candidate := range candidates {
		go func() {
			if _, err := awaitVersion(ctx, &redis.Options{Addr: candidate}); err == nil {
				answers <- "redis://" + candidate
			}
		}()
	}
	select {
	case address := <-answers:
		return address, nil
	case <-ctx.Done():
		return "", fmt.Errorf("none of %v answers: %w", candidates, ctx.Err())
	}
}
