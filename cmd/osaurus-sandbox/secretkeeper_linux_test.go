package main

import (
	"context"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/fault/faultrpc"
	"osaurus-sandbox/secrets/agefile"
)

// This program does not make a change that the daemon refused, for example because the audit log is
// full. It opens a store that the daemon cannot open.
func TestSecretsByDaemon(t *testing.T) {
	for name, test := range map[string]struct {
		daemon refusing
		set    int
		want   string // in the list
	}{
		"the audit is full":   {refusing{set: true}, fault.ExitUnavailable, "THEIRS"},
		"the store is closed": {refusing{list: true, set: true}, 0, "TOKEN"},
		"all is well":         {refusing{}, 0, "THEIRS"},
	} {
		t.Run(name, func(t *testing.T) {
			home := standIn(t, handling(controlpbconnect.NewSecretsHandler(test.daemon)))
			t.Setenv(config.HomeVariable, string(home))
			t.Setenv(agefile.PassphraseFileVariable, "")
			if err := config.WriteFile(home.SettingsFile(), []byte(`{"secrets": "file"}`)); err != nil {
				t.Fatal(err)
			}
			if code, out, stderr := fed(t, secretToken, "secret", "set", someAgent, "TOKEN"); code != test.set {
				t.Errorf("set: %d, %s%s", code, out, stderr)
			}
			if code, out, stderr := fed(t, "", "secret", "list", someAgent); code != 0 || !strings.Contains(out, test.want) {
				t.Errorf("list: %d, %s%s", code, out, stderr)
			}
			k, err := secretKey(t.Context(), []string{someAgent, "TOKEN"}, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := agefile.New(home, nil).Get(t.Context(), k); (err == nil) != test.daemon.list {
				t.Errorf("kept by this program: %v", err)
			}
		})
	}
}

// refusing says whether the daemon can list and change secrets.
type refusing struct {
	controlpbconnect.UnimplementedSecretsHandler
	list, set bool
}

func refuse(it bool) error {
	if !it {
		return nil
	}
	return faultrpc.Encode(fault.Newf(fault.Unavailable, "secret", "", "no"))
}

func (r refusing) List(context.Context, *controlpb.ListSecretsRequest) (*controlpb.ListSecretsResponse, error) {
	if err := refuse(r.list); err != nil {
		return nil, err
	}
	return &controlpb.ListSecretsResponse{Keys: []*controlpb.SecretKey{{Agent: strings.ToLower(someAgent), Name: "THEIRS"}}}, nil
}

func (r refusing) Set(context.Context, *controlpb.SetSecretRequest) (*controlpb.SetSecretResponse, error) {
	return &controlpb.SetSecretResponse{}, refuse(r.set)
}
