package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/vm"
)

func TestPackageSources(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(name, "")
	}
	apt, home := t.TempDir(), config.Defaults()
	home.Mirrors = []config.MirrorURL{"https://203.0.114.9/alpine"}
	if f := checkNetwork(t.Context(), home, apt); f.Status != vm.FindingOK {
		t.Errorf("%+v", f)
	}
	home.Mirrors = append(home.Mirrors, "http://10.9.8.7:3142/alpine")
	f := checkNetwork(t.Context(), home, apt)
	if f.Status != vm.FindingLimited || f.Detail != "agents do not reach 10.9.8.7:3142: local networks are closed" || f.Fix != "osaurus-sandbox config set 'networkRules+=allow tcp 10.9.8.7:3142'" {
		t.Errorf("%+v", f)
	}
	rule, err := config.ParseNetworkRule("allow tcp 10.9.8.7:3142")
	if err != nil {
		t.Fatal(err)
	}
	home.NetworkRules = []config.NetworkRule{rule}
	t.Setenv("HTTPS_PROXY", "http://192.168.1.1:8080")
	if f := checkNetwork(t.Context(), home, apt); f.Status != vm.FindingOK || !strings.Contains(f.Detail, "the proxy 192.168.1.1:8080, which agents do not reach") {
		t.Errorf("%+v", f)
	}
}

func TestAptSources(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sources.list.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sources.list":                   "# deb http://old.example.org/ x main\ndeb [arch=amd64 signed-by=/k] http://Mirror.example.org/debian stable main\n",
		"sources.list.d/other.list":      "deb https://10.0.0.1:8443/x stable main\n",
		"sources.list.d/debian.sources":  "Types: deb\nURIs: http://mirror.example.org/debian-security\nSuites: x\n",
		"sources.list.d/ignored.disable": "deb http://no.example.org/ x main\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, target := range targets(aptSources(dir)) {
		got = append(got, target.String())
	}
	if text := strings.Join(got, " "); text != "mirror.example.org:80 10.0.0.1:8443" {
		t.Error(text)
	}
}
