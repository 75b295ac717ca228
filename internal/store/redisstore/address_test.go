package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spelled is an address as a test compares it.
func spelled(a address) string {
	o := a.options
	tls := "plain"
	if o.TLSConfig != nil {
		tls = "TLS for " + o.TLSConfig.ServerName
	}
	return fmt.Sprintf("%s of %q, database %d, %q %q, %s; master %q, sentinels %q %q; pool of %d",
		[]string{"server", "sentinels", "cluster"}[a.topology], a.hosts, o.DB, o.Username, o.Password, tls,
		a.master, a.sentinelUser, a.sentinelPassword, o.PoolSize)
}

func TestURLsAreReadInEveryForm(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://":                   `server of ["localhost:6379"], database 0, "" "", plain; master "", sentinels "" ""; pool of 0`,
		"redis://h":                  `server of ["h:6379"], database 0, "" "", plain; master "", sentinels "" ""; pool of 0`,
		"redis://:p%40w@h:1/3":       `server of ["h:1"], database 3, "" "p@w", plain; master "", sentinels "" ""; pool of 0`,
		"redis://u:p:w^@[::1]:7":     `server of ["[::1]:7"], database 0, "u" "p:w^", plain; master "", sentinels "" ""; pool of 0`,
		"rediss://u:p@h?pool_size=7": `server of ["h:6379"], database 0, "u" "p", TLS for h; master "", sentinels "" ""; pool of 7`,
		"redis+sentinel://u:p@a,b:2,[::1]:3/4?master=m&sentinelUser=su&sentinelPassword=s%40p&pool_size=9": `sentinels of ["a:26379" "b:2" "[::1]:3"], database 4, "u" "p", plain; master "m", sentinels "su" "s@p"; pool of 9`,
		"rediss+sentinel://a?master=m": `sentinels of ["a:26379"], database 0, "" "", TLS for ; master "m", sentinels "" ""; pool of 0`,
		"redis+cluster://u:p@a:1,b/":   `cluster of ["a:1" "b:6379"], database 0, "u" "p", plain; master "", sentinels "" ""; pool of 0`,
		"rediss+cluster://a:1,b:2":     `cluster of ["a:1" "b:2"], database 0, "" "", TLS for ; master "", sentinels "" ""; pool of 0`,
	} {
		a, err := parseURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
		} else if diff := cmp.Diff(want, spelled(a)); diff != "" {
			t.Errorf("%s:\n%s", url, diff)
		}
	}
	if a, err := parseURL("unix://u:p@/run/redis.sock?db=2"); err != nil || a.options.Network != "unix" || a.options.DB != 2 || a.options.Password != "p" {
		t.Errorf("a socket: %+v, %v", a, err)
	}
}

func TestAWrongURLIsNamedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"":                                  "must begin with redis://",
		"hunter2":                           "must begin with redis://",
		"http://:hunter2@h":                 "must begin with redis://",
		"redis:/:hunter2@h":                 "must begin with redis://",
		"redis://:hunter2/x@h:1":            "%2F",
		"redis://:hunter2?x@h:1":            "%3F",
		"redis://:hunter2#@h:1":             "%23",
		"redis://:hunter2%zz@h:1":           "%25",
		"redis://:hunter2@h:port":           "host 1 of 1: its port must be a number",
		"redis://:hunter2@h:0":              "host 1 of 1: its port must be a number",
		"redis://:hunter2@h:65536":          "host 1 of 1: its port must be a number",
		"redis://:hunter2@[::1":             "host 1 of 1: it must be host:port",
		"redis://:hunter2@::1":              "host 1 of 1: it must be host:port",
		"redis://:hunter2@a,b":              "several hosts need",
		"redis://:hunter2@h/x":              "number of a database",
		"redis://:hunter2@h/1/2":            "number of a database",
		"redis://:hunter2@h?db=x":           "database number",
		"redis://:hunter2@h?x=hunter2":      "unexpected option: x",
		"redis://:hunter2@h?%zz":            "query must be",
		"redis+sentinel://:hunter2@a,,b":    "host 2 of 3: it has no name",
		"redis+sentinel://:hunter2@":        "host 1 of 1: it has no name",
		"redis+sentinel://:hunter2@a":       "?master=NAME",
		"redis+sentinel://a?master=&x=y":    "?master=NAME",
		"redis+cluster://:hunter2@a/1":      "no databases",
		"redis+cluster://:hunter2@a?db=1":   "no databases",
		"redis+cluster://a?master=m":        "unexpected option: master",
		"unix://:hunter2%zz@/s":             "must be unix://",
		"unix://":                           "must be unix://",
		"redis+sentinel://:hunter2@a b?x=1": "host 1 of 1: it must be host:port",
	} {
		err := CheckURL(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want something about %q", url, err, want)
		}
		if shown := RedactURL(url); shown != "(unreadable)" {
			t.Errorf("%s is shown as %s", url, shown)
		}
	}
}

func TestURLsAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://h:1/3":                   "redis://h:1/3",
		"rediss://user:hunter2@h/0?db=3":  "rediss://user:xxxxx@h/0?redacted",
		"redis://:hunter2@h":              "redis://:xxxxx@h",
		"redis://user@h":                  "redis://user@h",
		"unix://user:hunter2@/s.sock":     "unix://user:xxxxx@/s.sock",
		"redis+cluster://u:hunter2@a:1,b": "redis+cluster://u:xxxxx@a:1,b",
		"redis+sentinel://u:hunter2@a,b/1?master=m&sentinelPassword=hunter2": "redis+sentinel://u:xxxxx@a,b/1?redacted",
	} {
		if got := RedactURL(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}
