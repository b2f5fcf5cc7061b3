package intercept

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"osaurus-sandbox/network/policy"
)

func TestAuthorityIsMadeOnce(t *testing.T) {
	var store memory
	first, err := OpenAuthority(&store)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenAuthority(&store)
	if err != nil {
		t.Fatal(err)
	}
	if string(first.PEM()) != string(second.PEM()) || strings.Contains(string(first.PEM()), "PRIVATE") {
		t.Errorf("two authorities, or a key:\n%s%s", first.PEM(), second.PEM())
	}
	c := first.certificate
	if life := time.Until(c.NotAfter); life < authorityLife-time.Hour || !c.IsCA || !c.MaxPathLenZero || c.KeyUsage&x509.KeyUsageCertSign == 0 {
		t.Errorf("%+v", c)
	}
	leaf, err := second.leaf(host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first.PEM())
	if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
		t.Error(err)
	}
	if time.Until(leaf.Leaf.NotAfter) > leafLife || leaf.Leaf.IsCA {
		t.Errorf("%+v", leaf.Leaf)
	}
	for _, ip := range []string{"192.0.2.1", "2001:db8::1"} {
		if leaf, err = second.leaf(ip); err != nil || leaf.Leaf.VerifyHostname("["+ip+"]") != nil {
			t.Errorf("%s: %v %v", ip, leaf, err)
		}
	}
}

// failing is a store that is locked.
type failing struct{ memory }

func (f *failing) Load() ([]byte, error) { return nil, errors.New("the keyring is locked") }

func TestAuthorityThatCannotBeOpened(t *testing.T) {
	if _, err := OpenAuthority(&failing{}); err == nil || !strings.Contains(err.Error(), "keyring is locked") {
		t.Errorf("a locked store: %v", err)
	}
	var one, two memory
	OpenAuthority(&one)
	OpenAuthority(&two)
	_, certificate := pem.Decode(one.text)
	block, _ := pem.Decode(two.text)
	for name, text := range map[string]string{
		"text": "hello", "no key": string(certificate), "other key": string(pem.EncodeToMemory(block)) + string(certificate),
		"bad key": string(pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: []byte("secret bytes")})) + string(certificate),
	} {
		if _, err := OpenAuthority(&memory{[]byte(text)}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthorityThatEndsSoonIsReplaced(t *testing.T) {
	var store memory
	first, err := OpenAuthority(&store)
	if err != nil {
		t.Fatal(err)
	}
	old := *first.certificate
	old.NotAfter = time.Now().Add(renewBefore / 2)
	raw, err := sign(&old, &old, &first.key.PublicKey, first.key)
	if err != nil {
		t.Fatal(err)
	}
	key, _ := pem.Decode(store.text)
	store.text = append(pem.EncodeToMemory(key), pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: raw})...)
	second, err := OpenAuthority(&store)
	if err != nil || time.Until(second.certificate.NotAfter) < authorityLife-time.Hour || second.key.Equal(first.key) {
		t.Errorf("%v", err)
	}
}

func TestLeavesAreBounded(t *testing.T) {
	a, err := OpenAuthority(&memory{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range maxLeaves {
				if _, err := a.leaf(fmt.Sprintf("h%d.w%d.example.org", i, worker)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if len(a.leaves) > maxLeaves {
		t.Errorf("%d leaves", len(a.leaves))
	}
	one, _ := a.leaf(host)
	two, _ := a.leaf(host)
	if one != two {
		t.Error("a leaf is not kept")
	}
}

// listen serves the lab's gateway on a port for other programs. Port 0 becomes that port.
func (l *lab) listen() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.t.Fatal(err)
	}
	if l.options.Port == 0 {
		l.options.Port = uint16(listener.Addr().(*net.TCPAddr).Port)
	}
	l.served.Add(1)
	go func() {
		defer l.served.Done()
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.served.Go(func() { Serve(l.t.Context(), conn, l.options) })
		}
	}()
	l.t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("curl is not installed")
	}
	l := newLab(t, true, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Method, r.Header.Get("Authorization"))
	})
	l.bind(Credential{})
	rules(t, l, "allow "+host+" method=GET path=/v1/*")
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, l.authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	address := l.listen()
	for _, test := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"https://api.example.org/v1/x", "-H", "Authorization: Bearer " + placeholder}, "HTTP/2.0 GET Bearer [REDACTED:GITHUB_TOKEN]"},
		{[]string{"--http1.1", "https://api.example.org/v1/x"}, "HTTP/1.1 GET "},
		{[]string{"-d", "x", "https://api.example.org/v1/x"}, "request: POST https://api.example.org/v1/x\n"},
		{[]string{"https://api.example.org/v1/x?t=" + placeholder}, "is in the parameter t"},
		{[]string{"-f", "https://api.example.org/v2"}, "error: 403"},
	} {
		command := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "--noproxy", "*", "--connect-to", "::" + address}, test.arguments...)...)
		command.Env = Environment(bundle)
		out, _ := command.CombinedOutput()
		if !strings.Contains(string(out), test.want) || strings.Contains(string(out), value) {
			t.Errorf("curl %q printed %q, want %q", test.arguments, out, test.want)
		}
	}
}

// git sends a password only when it is asked for one, and prints a refusal's text.
func TestGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	l := newLab(t, true, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "x" || password != value {
			http.Error(w, "wrong password", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		fmt.Fprintf(w, "001e# service=git-upload-pack\n0000003d%040d refs/heads/main\n0000", 7)
	})
	l.bind(Credential{In: InBasic, Require: true})
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, l.authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	l.options.Port = 0
	_, port, _ := net.SplitHostPort(l.listen())
	run := func(password string) string {
		command := exec.CommandContext(t.Context(), git, "-c", "http.curloptResolve="+host+":"+port+":127.0.0.1", "-c", "http.proxy=",
			"-c", "credential.helper=!f() { echo username=x; echo password="+password+"; }; f", "ls-remote", "https://"+host+":"+port+"/repo")
		command.Env = append(Environment(bundle), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "GIT_TERMINAL_PROMPT=0", "no_proxy=*")
		out, _ := command.CombinedOutput()
		return string(out)
	}
	if out := run(placeholder); !strings.Contains(out, "refs/heads/main") {
		t.Errorf("git printed %q", out)
	}
	if out := run("theirs"); !strings.Contains(out, "accepts only the placeholder of GITHUB_TOKEN") {
		t.Errorf("git printed %q", out)
	}
}

// A stranger's handshake does not get the name of another host out of the gateway.
func TestHandshakeWithoutServerName(t *testing.T) {
	l := newLab(t, true, nil)
	conn := l.connect()
	defer conn.Close()
	config := l.trust()
	config.ServerName, config.InsecureSkipVerify = "", true
	client := tls.Client(conn, config)
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	if names := client.ConnectionState().PeerCertificates[0].DNSNames; len(names) != 1 || names[0] != host {
		t.Errorf("the certificate is for %q", names)
	}
}

// Programs that are installed here trust the certificate, and show a refusal's text or status.
func TestOtherPrograms(t *testing.T) {
	l := newLab(t, true, nil)
	certificate, roots := upstreamCertificate(t, "localhost", time.Now().Add(time.Hour))
	l.api.TLS.Certificates[0], l.options.Roots = certificate, roots
	l.options.Name, l.options.Port = "localhost", 0
	l.options.Authorize = func(_ context.Context, _, path string) policy.Decision {
		if path == "/ok" {
			return policy.Decision{Action: policy.Allow}
		}
		return policy.Decision{Action: policy.Deny, Reason: "closed by a test"}
	}
	bundle := filepath.Join(t.TempDir(), "bundle.pem")
	if err := os.WriteFile(bundle, l.authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "https://" + strings.Replace(l.listen(), "127.0.0.1", "localhost", 1)
	for name, test := range map[string]struct {
		command []string
		refused string
	}{
		"wget": {[]string{"wget", "-qO-", "--content-on-error", "--ca-certificate=" + bundle, "URL"}, "closed by a test"},
		"python": {[]string{"python3", "-c", `import ssl, sys, urllib.request
c = ssl.create_default_context()
c.verify_flags |= ssl.VERIFY_X509_STRICT
try: print(urllib.request.urlopen(sys.argv[1], context=c).read().decode())
except urllib.error.HTTPError as e: print(e, e.read().decode())`, "URL"}, "closed by a test"},
		"node": {[]string{"node", "-e", `fetch(process.argv[1]).then(async r => console.log(r.status, await r.text()), e => console.log(e.cause))`, "URL"}, "closed by a test"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := exec.LookPath(test.command[0])
			if err != nil {
				t.Skip(test.command[0], "is not installed")
			}
			for target, want := range map[string]string{"/ok": "hello", "/closed": test.refused} {
				arguments := slices.Clone(test.command[1:])
				arguments[len(arguments)-1] = url + target
				command := exec.CommandContext(t.Context(), path, arguments...)
				command.Env = append(Environment(bundle), "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"), "no_proxy=*")
				if out, err := command.CombinedOutput(); !strings.Contains(string(out), want) {
					t.Errorf("%s: %v %s", target, err, out)
				}
			}
		})
	}
}
