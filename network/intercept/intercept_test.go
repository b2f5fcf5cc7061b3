package intercept

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/network/policy"
)

// versions runs a test in plain HTTP and TLS, with HTTP/1.1 and HTTP/2.
func versions(t *testing.T, test func(t *testing.T, secure bool, major int)) {
	for _, secure := range []bool{false, true} {
		for _, major := range []int{1, 2} {
			t.Run(fmt.Sprintf("tls=%v/http%d", secure, major), func(t *testing.T) { test(t, secure, major) })
		}
	}
}

func TestForwards(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		l := newLab(t, secure, nil)
		res, page := l.do(l.client(major), "POST", "/v1/a%2Fb?x=1;y=%zz&z", "data", func(r *http.Request) {
			r.Header.Set("X-Own", "yes")
			r.Header.Set("Accept-Encoding", "br")
		})
		if res.StatusCode != 200 || page != "hello" || res.ContentLength != 5 || res.ProtoMajor != major {
			t.Errorf("%v %q", res, page)
		}
		got := l.arrived()[0]
		if got.Target != "/v1/a%2Fb?x=1;y=%zz&z" || got.Host != host || got.Body != "data" || got.Header.Get("X-Own") != "yes" ||
			got.Header.Get("Accept-Encoding") != "br" || !strings.HasPrefix(got.Proto, fmt.Sprintf("HTTP/%d", major)) || got.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("the server got %+v", got)
		}
	})
}

func TestRefusesRequestsOfThePolicy(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		l := newLab(t, secure, nil)
		rules(t, l, "allow "+host+" method=GET path=/v1/*", "deny "+host+" path=/v1/admin/*")
		c := l.client(major)
		for _, test := range []struct {
			method, path string
			header       string
			ok           bool
		}{
			{"GET", "/v1/x", "", true},
			{"POST", "/v1/x", "", false},
			{"GET", "/v2/x", "", false},
			{"GET", "/v1/../v2/x", "", false},
			{"GET", "/v1/%2e%2e/v2/x", "", false},
			{"GET", "/v1/%252e%252e/v2/x", "", false},
			{"GET", "/v1/..;a=b/v2/x", "", false},
			{"GET", `/v1/..%5cv2/x`, "", false},
			{"GET", "/v1%2Fx", "", false},
			{"GET", "/v1/x%00", "", false},
			{"GET", "//v1/x", "", false},
			{"GET", "/v1/admin/x", "", false},
			{"GET", "/v1//admin/x", "", false},
			{"GET", "/v1/admin;a=b/x", "", false},
			{"GET", "/v1/%2561dmin/x", "", false},
			{"GET", "/v1/x%20y", "", true},
			{"GET", "/v1/x?_method=DELETE", "", false},
			{"GET", "/v1/x", "X-Http-Method-Override", false},
		} {
			before := len(l.arrived())
			res, page := l.do(c, test.method, test.path, "", func(r *http.Request) {
				if test.header != "" {
					r.Header.Set(test.header, "DELETE")
				}
			})
			if sent := len(l.arrived()) > before; sent != test.ok || (res.StatusCode == 200) != test.ok {
				t.Errorf("%s %s: %d, sent %v: %s", test.method, test.path, res.StatusCode, sent, page)
			}
			if !test.ok && (res.StatusCode != 403 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/plain") || !strings.Contains(page, "reason: ")) {
				t.Errorf("%s %s: %v %s", test.method, test.path, res, page)
			}
		}
		_, page := l.do(c, "PUT", "/v1/admin/x?key=private", "", nil)
		want := fmt.Sprintf("The sandbox's network gateway refused this request.\n\nrequest: PUT %s://%s/v1/admin/x\nreason:  ",
			map[bool]string{true: "https", false: "http"}[secure], host)
		if !strings.HasPrefix(page, want) || !strings.Contains(page, "\nrule:    deny "+host+" path=/v1/admin/*\n") || strings.Contains(page, "private") {
			t.Errorf("the page is\n%s", page)
		}
	})
}

// rules lets the policy decide about requests.
func rules(t *testing.T, l *lab, texts ...string) {
	t.Helper()
	p := policy.Policy{Mode: config.NetworkAllow}
	for _, text := range texts {
		r, err := config.ParseNetworkRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Rules = append(p.Rules, r)
	}
	l.options.Authorize = func(_ context.Context, method, path string) policy.Decision {
		return p.Decide(policy.Target{
			Protocol: policy.TCP, Name: host, Addr: netip.MustParseAddr("93.184.216.34"), Port: l.options.Port, Method: method, Path: path,
		}, time.Now())
	}
}

// N08: a request for another host than the connection's is refused.
func TestN08DomainFronting(t *testing.T) {
	versions(t, func(t *testing.T, secure bool, major int) {
		l := newLab(t, secure, nil)
		c := l.client(major)
		for name, ok := range map[string]bool{
			host: true, strings.ToUpper(host): true, host + ".": true, fmt.Sprint(host, ":", l.options.Port): true,
			"evil.example.org": false, host + ":8080": false, "x" + host: false, host + ".evil.org": false,
		} {
			before := len(l.arrived())
			res, page := l.do(c, "GET", "/", "", func(r *http.Request) { r.Host = name })
			if sent := len(l.arrived()) > before; sent != ok {
				t.Errorf("%s: %d, sent %v: %s", name, res.StatusCode, sent, page)
			}
			if !ok && res.StatusCode != http.StatusMisdirectedRequest && res.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d %s", name, res.StatusCode, page)
			}
		}
	})
}

func TestCanonicalHost(t *testing.T) {
	for name, want := range map[string]string{
		"API.Example.org.": host, "api.example.org": host, "a\u212a.org": "", "\u0131.org": "", "": "", "::1": "::1",
	} {
		if got := canonicalHost(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestRefusesAnotherServerName(t *testing.T) {
	l := newLab(t, true, nil)
	conn, done := l.pair()
	defer conn.Close()
	config := l.trust()
	config.ServerName = "evil.example.org"
	if err := tls.Client(conn, config).Handshake(); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("the client got %v", err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), `server name "evil.example.org"`) {
		t.Errorf("Serve returned %v", err)
	}
}

func TestClientWithoutTrust(t *testing.T) {
	l := newLab(t, true, nil)
	conn, done := l.pair()
	defer conn.Close()
	if err := tls.Client(conn, &tls.Config{ServerName: host}).Handshake(); err == nil {
		t.Error("a client trusts an unknown authority")
	}
	if err := <-done; !strings.Contains(fault.AdviceOf(err), "may not trust") {
		t.Errorf("Serve returned %v", err)
	}
}

func TestRefusesBadCertificates(t *testing.T) {
	expired, expiredRoots := upstreamCertificate(t, host, time.Now().Add(-time.Hour))
	wrong, wrongRoots := upstreamCertificate(t, "other.example.org", time.Now().Add(time.Hour))
	unknown, _ := upstreamCertificate(t, host, time.Now().Add(time.Hour))
	for name, test := range map[string]struct {
		certificate tls.Certificate
		change      func(*Options)
		text        string
	}{
		"expired": {expired, func(o *Options) { o.Roots = expiredRoots }, "expired"},
		"wrong":   {wrong, func(o *Options) { o.Roots = wrongRoots }, "not " + host},
		"unknown": {unknown, func(*Options) {}, "unknown authority"},
	} {
		for _, major := range []int{1, 2} {
			t.Run(fmt.Sprint(name, major), func(t *testing.T) {
				l := newLab(t, true, nil)
				l.bind(Credential{})
				l.api.TLS.Certificates = []tls.Certificate{test.certificate}
				test.change(&l.options)
				res, page := l.do(l.client(major), "GET", "/", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+placeholder) })
				if res.StatusCode != 502 || !strings.Contains(page, "does not trust the certificate of https://"+host) || !strings.Contains(page, test.text) || len(l.arrived()) != 0 {
					t.Errorf("%d %s", res.StatusCode, page)
				}
			})
		}
	}
}

func TestServerThatCannotBeReached(t *testing.T) {
	l := newLab(t, true, nil)
	l.options.Dial = func(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") }
	res, page := l.do(l.client(2), "GET", "/", "", nil)
	if res.StatusCode != 502 || page != "The sandbox's network gateway cannot reach https://api.example.org: connection refused\n" {
		t.Errorf("%d %s", res.StatusCode, page)
	}
	res, _ = l.do(l.client(2), "POST", "/pkg.Service/Call", "x", func(r *http.Request) { r.Header.Set("Content-Type", "application/grpc+proto") })
	if res.StatusCode != 200 || res.Header.Get("Grpc-Status") != "14" || !strings.Contains(res.Header.Get("Grpc-Message"), "cannot%20reach") {
		t.Errorf("gRPC: %v", res)
	}
}

// N10: whatever form a request has, the same decision is made, and the server gets one plain request.
func TestN10SameVerdictForAllForms(t *testing.T) {
	l := newLab(t, false, nil)
	l.options.Authorize = func(_ context.Context, method, path string) policy.Decision {
		if path == "/ok" {
			return policy.Decision{Action: policy.Allow}
		}
		return policy.Decision{Action: policy.Deny, Reason: "no"}
	}
	for name, test := range map[string]struct {
		text   string
		status int
		sent   int
	}{
		"origin":             {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 200, 1},
		"origin denied":      {"GET /no HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 403, 0},
		"HTTP/1.0":           {"GET /ok HTTP/1.0\r\n\r\n", 200, 1},
		"absolute":           {"GET http://api.example.org/ok HTTP/1.1\r\nHost: other.example.org\r\n\r\n", 200, 1},
		"absolute denied":    {"GET http://api.example.org/no HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 403, 0},
		"absolute other":     {"GET http://evil.org/ok HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 421, 0},
		"absolute userinfo":  {"GET http://api.example.org@evil.org/ok HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 421, 0},
		"absolute scheme":    {"GET https://api.example.org/ok HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 421, 0},
		"no host":            {"GET /ok HTTP/1.1\r\n\r\n", 400, 0},
		"two hosts":          {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\nHost: evil.org\r\n\r\n", 400, 0},
		"connect":            {"CONNECT api.example.org:80 HTTP/1.1\r\nHost: api.example.org:80\r\n\r\n", 403, 0},
		"connect path":       {"CONNECT /ok HTTP/1.1\r\nHost: api.example.org:80\r\n\r\n", 403, 0},
		"options *":          {"OPTIONS * HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 403, 0},
		"upgrade denied":     {"GET /no HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 403, 0},
		"h2c upgrade":        {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200, 1},
		"rewritten":          {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\nX-Original-URL: /no\r\n\r\n", 200, 1},
		"length and chunked": {"POST /ok HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /no HTTP/1.1\r\nHost: api.example.org\r\n\r\n", 200, 1},
		"two lengths":        {"POST /ok HTTP/1.1\r\nHost: api.example.org\r\nContent-Length: 4\r\nContent-Length: 0\r\n\r\nGET /no HTTP/1.1\r\n\r\n", 400, 0},
		"odd encoding":       {"POST /ok HTTP/1.1\r\nHost: api.example.org\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400, 0},
		"space before colon": {"GET /ok HTTP/1.1\r\nHost : evil.org\r\nHost: api.example.org\r\n\r\n", 400, 0},
		"NUL":                {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\nX: a\x00b\r\n\r\n", 400, 0},
		"large head":         {"GET /ok HTTP/1.1\r\nHost: api.example.org\r\nX: " + strings.Repeat("a", maxRequestHead+8192) + "\r\n\r\n", 431, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(l.arrived())
			conn := l.connect()
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			go io.WriteString(conn, test.text) // the server may end the connection before it has read all
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			page, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
			if sent := len(l.arrived()) - before; res.StatusCode != test.status || sent != test.sent {
				t.Fatalf("%d, sent %d: %s", res.StatusCode, sent, page)
			}
			if test.sent == 1 {
				got := l.arrived()[before]
				if got.Target != "/ok" || got.Host != host || got.Header.Get("Upgrade") != "" || got.Header.Get("X-Original-Url") != "" {
					t.Errorf("the server got %+v", got)
				}
			}
		})
	}
}
