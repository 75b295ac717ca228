package torture

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// network is every link between clients and servers, and between servers and Redis.
type network struct {
	api   *toxiproxy.ApiServer
	wires []*wire
}

func newNetwork() *network {
	return &network{api: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// wire is one link.
type wire struct {
	name  string
	proxy *toxiproxy.Proxy
}

// wire makes a link to an address that ends with the test.
func (n *network) wire(t *testing.T, name, to string) *wire {
	t.Helper()
	w := &wire{name: name, proxy: toxiproxy.NewProxy(n.api, fmt.Sprintf("%s %d", name, len(n.wires)), "127.0.0.1:0", to)}
	if err := w.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.proxy.Stop)
	n.wires = append(n.wires, w)
	return w
}

// ailment is what a link can suffer from, as toxics of toxiproxy, each with its stream and
// attributes. A %d is some number of bytes, more than none and less than any message.
type ailment struct {
	name   string
	toxics []string
}

const (
	towardsClient = `"stream":"downstream"`
	towardsServer = `"stream":"upstream"`
)

var ailments = []ailment{
	{"connections reset", []string{`"type":"reset_peer",` + towardsServer + `,"attributes":{"timeout":0}`, `"type":"reset_peer",` + towardsClient + `,"attributes":{"timeout":0}`}},
	{"requests lost", []string{`"type":"limit_data",` + towardsServer + `,"attributes":{"bytes":0}`}},
	{"requests cut short", []string{`"type":"limit_data",` + towardsServer + `,"attributes":{"bytes":%d}`}},
	{"replies lost", []string{`"type":"limit_data",` + towardsClient + `,"attributes":{"bytes":0}`}},
	{"replies cut short", []string{`"type":"limit_data",` + towardsClient + `,"attributes":{"bytes":%d}`}},
	// Half-open: what is sent disappears, and no connection closes until the toxic goes.
	{"half-open towards the client", []string{`"type":"timeout",` + towardsClient + `,"attributes":{"timeout":0}`}},
	{"half-open towards the server", []string{`"type":"timeout",` + towardsServer + `,"attributes":{"timeout":0}`}},
	{"partition", []string{`"type":"timeout",` + towardsServer + `,"attributes":{"timeout":0}`, `"type":"timeout",` + towardsClient + `,"attributes":{"timeout":0}`}},
	// What is sent arrives when the toxic goes, however long ago the sender gave up.
	{"requests held back", []string{`"type":"latency",` + towardsServer + `,"attributes":{"latency":3600000}`}},
	{"replies held back", []string{`"type":"latency",` + towardsClient + `,"attributes":{"latency":3600000}`}},
	{"delays", []string{`"type":"latency",` + towardsServer + `,"attributes":{"latency":60,"jitter":60}`, `"type":"latency",` + towardsClient + `,"attributes":{"latency":60,"jitter":60}`}},
}

// suffer puts an ailment on the link and gives what takes it off.
func (w *wire) suffer(t *testing.T, a ailment, bytes int) (heal func()) {
	t.Helper()
	for i, toxic := range a.toxics {
		if strings.Contains(toxic, "%d") {
			toxic = fmt.Sprintf(toxic, bytes)
		}
		if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name":"%d",%s}`, i, toxic))); err != nil {
			t.Errorf("add a toxic: %v", err)
		}
	}
	return func() {
		for i := range a.toxics {
			if err := w.proxy.Toxics.RemoveToxic(context.Background(), fmt.Sprint(i)); err != nil {
				t.Errorf("remove a toxic: %v", err)
			}
		}
	}
}
