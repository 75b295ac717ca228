package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// topology is how the servers behind a URL find each other.
type topology int

const (
	single topology = iota
	sentinel
	cluster
)

// scheme is what a URL begins with.
type scheme struct {
	topology
	tls  bool
	port string // the default one
}

var schemes = map[string]scheme{
	"redis": {single, false, "6379"}, "rediss": {single, true, "6379"},
	"redis+sentinel": {sentinel, false, "26379"}, "rediss+sentinel": {sentinel, true, "26379"},
	"redis+cluster": {cluster, false, "6379"}, "rediss+cluster": {cluster, true, "6379"},
}

// address is where a Redis is and how to be let in.
type address struct {
	topology
	// options are those of each connection to a server that has data.
	options *redis.Options
	// hosts are host:port of the server, of sentinels, or of some nodes of a cluster.
	hosts []string
	// master is the name by which sentinels know the servers, user and password are theirs.
	master, sentinelUser, sentinelPassword string
}

// Parameters of a URL with sentinels; everything else in a query is go-redis'.
const (
	paramMaster           = "master"
	paramSentinelUser     = "sentinelUser"
	paramSentinelPassword = "sentinelPassword"
)

// CheckURL tells what is wrong with a URL of [Options]. It never repeats the URL, which may hold a
// password in any place, also in a wrong one.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// RedactURL is a URL without its password and its query, which may hold one too. What cannot be read
// is hidden whole.
func RedactURL(raw string) string {
	if _, err := parseURL(raw); err != nil {
		return "(unreadable)"
	}
	name, rest, _ := strings.Cut(raw, "://")
	authority, tail := cutAuthority(rest)
	path, query, asked := strings.Cut(tail, "?")
	if asked && query != "" {
		path += "?redacted"
	}
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, _, secret := strings.Cut(authority[:at], ":")
		if secret {
			user += ":xxxxx"
		}
		authority = user + authority[at:]
	}
	return name + "://" + authority + path
}

// cutAuthority splits what follows :// before the first character that ends users and hosts.
func cutAuthority(rest string) (authority, tail string) {
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		return rest[:end], rest[end:]
	}
	return rest, ""
}

var (
	errScheme = errors.New("it must begin with redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, " +
		"redis+cluster:// or rediss+cluster://")
	errReserved = errors.New("in a user, a password or a parameter / is written as %2F, ? as %3F, # as %23 and @ as %40")
	errEscape   = errors.New("a % is not followed by two hexadecimal digits; the character itself is written as %25")
	errPath     = errors.New("what follows the hosts must be / and the number of a database")
	errQuery    = errors.New("its query must be name=value&name=value")
)

// parseURL reads a URL. Its errors say nothing that is part of it but names of parameters.
func parseURL(raw string) (address, error) {
	name, rest, _ := strings.Cut(raw, "://")
	if name == "unix" {
		options, err := redis.ParseURL(raw)
		if err != nil {
			return address{}, errors.New("it must be unix://user:password@/path/of/the/socket?db=0")
		}
		return address{options: options}, nil
	}
	kind, known := schemes[name]
	if !known {
		return address{}, errScheme
	}
	authority, tail := cutAuthority(rest)
	if strings.ContainsAny(tail, "@#") {
		return address{}, errReserved
	}
	a := address{topology: kind.topology}
	user, err := a.readAuthority(authority, kind.port)
	if err != nil {
		return address{}, err
	}
	path, text, _ := strings.Cut(tail, "?")
	if _, err := strconv.ParseUint("0"+strings.Trim(path, "/"), 10, 31); err != nil {
		return address{}, errPath
	}
	query, err := url.ParseQuery(text)
	if err != nil {
		return address{}, errQuery
	}
	if err := a.readSentinel(query); err != nil {
		return address{}, err
	}
	base := url.URL{Scheme: "redis", User: user, Host: a.hosts[0], Path: path, RawQuery: query.Encode()}
	if kind.tls {
		base.Scheme = "rediss"
	}
	if a.options, err = redis.ParseURL(base.String()); err != nil {
		if _, whole := errors.AsType[*url.Error](err); whole {
			return address{}, errors.New("its hosts or its query cannot be read")
		}
		return address{}, errors.New(strings.TrimPrefix(err.Error(), "redis: "))
	}
	if a.topology == cluster && a.options.DB != 0 {
		return address{}, errors.New("a cluster has no databases: leave the number behind the hosts out")
	}
	if a.topology != single && kind.tls {
		a.options.TLSConfig.ServerName = "" // each server shows a certificate for its own name
	}
	return a, nil
}

// readAuthority reads user:password@host:port,host:port.
func (a *address) readAuthority(authority, port string) (*url.Userinfo, error) {
	var user *url.Userinfo
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		name, secret, given := strings.Cut(authority[:at], ":")
		name, errName := url.PathUnescape(name)
		secret, errSecret := url.PathUnescape(secret)
		if errName != nil || errSecret != nil {
			return nil, errEscape
		}
		if user = url.User(name); given {
			user = url.UserPassword(name, secret)
		}
		authority = authority[at+1:]
	}
	hosts := strings.Split(authority, ",")
	if a.topology == single && len(hosts) > 1 {
		return nil, errors.New("several hosts need redis+sentinel:// or redis+cluster://")
	}
	if a.topology == single && authority == "" {
		hosts[0] = "localhost"
	}
	for i, text := range hosts {
		host, err := hostPort(text, port)
		if err != nil {
			return nil, fmt.Errorf("host %d of %d: %w", i+1, len(hosts), err)
		}
		a.hosts = append(a.hosts, host)
	}
	return user, nil
}

// hostPort reads a host with or without a port.
func hostPort(text, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port, err = net.SplitHostPort(text + ":" + defaultPort)
	}
	if err != nil || strings.ContainsAny(host, " %\"<>\\^`{|}") {
		return "", errors.New("it must be host:port, with an IPv6 address in brackets")
	}
	if host == "" {
		return "", errors.New("it has no name")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", errors.New("its port must be a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// readSentinel takes the parameters of sentinels out of a query.
func (a *address) readSentinel(query url.Values) error {
	if a.topology != sentinel {
		return nil
	}
	for name, field := range map[string]*string{
		paramMaster: &a.master, paramSentinelUser: &a.sentinelUser, paramSentinelPassword: &a.sentinelPassword,
	} {
		*field = query.Get(name)
		query.Del(name)
	}
	if a.master == "" {
		return errors.New("sentinels need ?" + paramMaster + "=NAME, the name under which they watch the master")
	}
	return nil
}

// trust has TLS take the authorities and show the certificate that the options name.
func (a *address) trust(o Options) error {
	if o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil
	}
	config := a.options.TLSConfig
	if config == nil {
		return errors.New("files of TLS need a URL with TLS, which begins with rediss")
	}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return fmt.Errorf("read the authorities of the Redis: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("read the authorities of the Redis: %s has no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile == "" && o.KeyFile == "" {
		return nil
	}
	certificate, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return fmt.Errorf("read the certificate for the Redis: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	return nil
}

// universal is what clients of several servers are made from.
func (a *address) universal() *redis.UniversalOptions {
	o := a.options
	return &redis.UniversalOptions{
		Addrs: slices.Clone(a.hosts), MasterName: a.master, SentinelUsername: a.sentinelUser, SentinelPassword: a.sentinelPassword,
		Username: o.Username, Password: o.Password, DB: o.DB, Protocol: o.Protocol, TLSConfig: o.TLSConfig,
		ClientName: o.ClientName, Dialer: o.Dialer, OnConnect: o.OnConnect, ContextTimeoutEnabled: o.ContextTimeoutEnabled,
		MaxRetries: o.MaxRetries, MaxRedirects: -1,
		DialTimeout: o.DialTimeout, DialerRetries: o.DialerRetries, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MaxConcurrentDials: o.MaxConcurrentDials,
		MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns, MaxActiveConns: o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime, ConnMaxLifetimeJitter: o.ConnMaxLifetimeJitter,
		PipelinePoolSize: o.PipelinePoolSize, PipelineReadBufferSize: o.PipelineReadBufferSize, PipelineWriteBufferSize: o.PipelineWriteBufferSize,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
	}
}
