package packages

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestUndo(t *testing.T) {
	for _, tc := range []struct {
		name          string
		manager       Manager
		before, after string
		want          [][]string
	}{
		{"nothing came", APK, "busybox\njq\n", "busybox\njq\n", nil},
		{"a package came", APK, "busybox\n", "busybox\ngreet@edge>=1\njq\n", [][]string{{"apk", "del", "--no-progress", "--wait", lockTime, "--", "greet", "jq"}}},
		{"another version was asked for", APK, "jq<2\n", "jq=9\n", [][]string{{"apk", "add", "--no-cache", "--no-progress", "--wait", lockTime, "--", "jq<2"}}},
		{"packages came, whole and half", APT, "bash installed\n", "bash installed\njq half-configured\nlibjq1:amd64 unpacked\nold config-files\n",
			[][]string{{"dpkg", "--purge", "--force-remove-reinstreq", "--", "jq", "libjq1:amd64"}}},
		{"lines that are none", APK, "", "--root=/\n/etc\n!x\n\x00\n", nil},
	} {
		if got := tc.manager.Undo(tc.before, tc.after); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Undo passes only names of packages, whatever the guest lists.
func FuzzUndo(f *testing.F) {
	f.Add("a\nb>1\n", "a\nb<2\nc@edge\n")
	f.Add("bash installed\n", "bash installed\n--root half-installed\nlibc6:amd64 unpacked\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		for _, m := range []Manager{APK, APT} {
			for _, args := range m.Undo(before, after) {
				from := slices.Index(args, "--")
				if from < 0 || from == len(args)-1 {
					t.Fatalf("%q", args)
				}
				for _, name := range args[from+1:] {
					if _, err := Parse(m, name); err != nil {
						t.Errorf("%s: %v", m, err)
					}
				}
			}
		}
	})
}

// The outputs are those of real managers.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		manager Manager
		output  string
		class   Class
		again   bool
	}{
		{APK, "ERROR: unable to select packages:\n  nothing (no such package):\n    required by: world[nothing]\n", Missing, false},
		{APK, "ERROR: unable to select packages:\n  greet-1.0-r0:\n    breaks: world[greet=9]\n", Conflict, false},
		{APK, "WARNING: fetching http://127.0.0.1:9/v3.20/main: could not connect to server (check repositories file)\nERROR: unable to select packages:\n  greet (no such package):\n", NoNetwork, false},
		{APK, "WARNING: fetching https://x/v3.20/main: temporary error (try again later)\nERROR: unable to select packages:\n  greet (no such package):\n", NoNetwork, true},
		{APK, "(1/1) Installing bad (1.0-r0)\nERROR: bad-1.0-r0: BAD signature\n1 error; 8 MiB in 16 packages\n", Signature, false},
		{APK, "ERROR: gone-1.0-r0: package mentioned in index not found (try 'apk update')\n1 error; 8 MiB in 16 packages\n", Stale, true},
		{APK, "ERROR: clash-1.0-r0: trying to overwrite usr/bin/greet owned by greet-1.0-r0.\n1 error; 8 MiB in 17 packages\n", Conflict, false},
		{APK, "Waiting for repository lock\nERROR: Unable to lock database: Interrupted system call\nERROR: Failed to open apk database: Interrupted system call\n", Locked, true},
		{APK, "OK: nothing\n1 error; 8 MiB in 17 packages\n", Broken, true},
		{APK, "WARNING: The repository tag for world dependency 'greet@edge' does not exist\nERROR: Not committing changes due to missing repository tags.\n", Missing, false},

		{APT, "E: Unable to locate package nothing\n", Missing, true},
		{APT, "The following packages have unmet dependencies:\n needy : Depends: nowhere but it is not installable\nE: Unable to correct problems, you have held broken packages.\n", Conflict, false},
		{APT, "Err:1 http://x libgreet 1.0\n  404  Not Found\nE: Failed to fetch http://x/libgreet.deb  404  Not Found\nE: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n", Stale, true},
		{APT, "dpkg: error processing package broken (--configure):\n installed broken package post-installation script subprocess returned error exit status 3\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n", Script, false},
		{APT, "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.\n", Broken, true},
		{APT, "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 9 (python3)\nE: Unable to acquire the dpkg frontend lock\n", Locked, true},
		{APT, "Err:1 http://x/debian bookworm InRelease\n  Temporary failure resolving 'x'\nE: Unable to locate package jq\n", NoNetwork, true},
		{APT, "W: GPG error: http://x ./ InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 1234\nE: Unable to locate package jq\n", Signature, false},

		{Pip, "ERROR: Could not find a version that satisfies the requirement nothing (from versions: none)\nERROR: No matching distribution found for nothing\n", Missing, false},
		{Pip, "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<...>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/x/\nERROR: No matching distribution found for x\n", NoNetwork, false},
		{Pip, "pip._vendor.urllib3.exceptions.ReadTimeoutError: HTTPSConnectionPool(host='x', port=443): Read timed out.\n", NoNetwork, true},
		{Pip, "ERROR: Cannot install greetlib==1.0 and picky==1.0 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit x\n", Conflict, false},
		{Pip, "/home/a/.venv/bin/python3: No module named pip\n", Broken, true},
		{Pip, "  error: subprocess-exited-with-error\n  × Building wheel for x (pyproject.toml) did not run successfully.\nERROR: Failed building wheel for x\n", Build, false},

		{NPM, "npm error code E404\nnpm error 404 Not Found - GET http://x/nothing - Not found\n", Missing, false},
		{NPM, "npm error code ENOTEMPTY\nnpm error syscall rename\n", Broken, true},
		{NPM, "npm error code ECONNREFUSED\n", NoNetwork, false},
		{NPM, "npm error code EAI_AGAIN\n", NoNetwork, true},
		{NPM, "npm error code 3\nnpm error path /x\nnpm error command failed\nnpm error command sh -c exit 3\n", Build, false},

		{APK, "", Unknown, false},
	} {
		if class, again := tc.manager.Judge(tc.output); class != tc.class || again != tc.again {
			t.Errorf("%s %q: %s %v, want %s %v", tc.manager, tc.output, class, again, tc.class, tc.again)
		}
		if tc.class.Advice() == "" {
			t.Errorf("%s: no advice", tc.class)
		}
	}
}

func TestSummary(t *testing.T) {
	for _, tc := range []struct {
		name, output, text string
		asked, recommended []string
	}{
		{"apk", "fetch x\n(1/2) Installing oniguruma (6.9.9-r0)\n(2/2) Upgrading jq (1.6-r0 -> 1.7-r0)\nExecuting x.trigger\nOK: 9 MiB in 9 packages\n",
			"jq 1.6-r0 -> 1.7-r0, oniguruma 6.9.9-r0", []string{"jq=1.7-r0"}, nil},
		{"apt", "Reading package lists...\nSuggested packages:\n  gcc-doc\nRecommended packages:\n  libc6-dev\n  | libc-dev\nThe following NEW packages will be installed:\n  cpp gcc\n" +
			"Fetched 9 kB in 1s (9 kB/s)\nSetting up cpp (4:12.2.0-3) ...\nSetting up gcc:amd64 (4:12.2.0-3) ...\n",
			"gcc 4:12.2.0-3, cpp 4:12.2.0-3", []string{"gcc"}, []string{"libc6-dev | libc-dev"}},
		{"apt, with nothing to do", "Reading...\njq is already the newest version (1.6-2.1).\n0 upgraded\n", "jq 1.6-2.1", []string{"jq"}, nil},
		{"npm", "\nnpm warn x\nadded 3 packages in 2s\n", "npm warn x\nadded 3 packages in 2s", []string{"x"}, nil},
		{"many", strings.Repeat("Setting up x (1) ...\n", 40), strings.Repeat("x 1, ", maxSummary-1) + "x 1 and 28 more", nil, nil},
	} {
		var asked []Spec
		for _, name := range tc.asked {
			asked = append(asked, Spec(name))
		}
		if text, recommended := Summary(tc.output, asked); text != tc.text || !slices.Equal(recommended, tc.recommended) {
			t.Errorf("%s: %q %q", tc.name, text, recommended)
		}
	}
}

func TestComplaint(t *testing.T) {
	for output, want := range map[string]string{
		"fetch x\nERROR: bad-1.0-r0: BAD signature\n1 error;\n": "ERROR: bad-1.0-r0: BAD signature",
		"Reading...\nE: Unable to locate package x\n":           "E: Unable to locate package x",
		"npm error code E404\nnpm error 404 x\n":                "npm error code E404",
		"all is well\n":                                         "",
	} {
		if got := Complaint(output); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
