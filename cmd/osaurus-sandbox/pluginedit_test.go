package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/controlpb/controlpbconnect"
)

// A plugin whose new text is not taken has the name that it had.
func TestKeepEditedOrNothing(t *testing.T) {
	library := &unwilling{}
	client, err := control.Connect(t.Context(), standIn(t, handling(controlpbconnect.NewPluginsHandler(library))), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = keepEdited(t.Context(), client, "old-name", "Old Name", []byte(`{"name": "New Name", "description": "x", "version": "1.0.0"}`))
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("%v", err)
	}
	if got := strings.Join(library.renamed, ", "); got != "old-name to New Name, new-name to Old Name" {
		t.Errorf("renamed %s", got)
	}
}

// unwilling is a library that renames plugins and takes none.
type unwilling struct {
	controlpbconnect.UnimplementedPluginsHandler
	renamed []string
}

func (u *unwilling) Rename(_ context.Context, r *controlpb.RenamePluginRequest) (*controlpb.RenamePluginResponse, error) {
	u.renamed = append(u.renamed, r.Plugin+" to "+r.Name)
	return &controlpb.RenamePluginResponse{Plugin: &controlpb.Plugin{Id: "new-name", Name: r.Name}}, nil
}

func (u *unwilling) Import(context.Context, *controlpb.ImportPluginRequest) (*controlpb.ImportPluginResponse, error) {
	return nil, connect.NewError(connect.CodeUnavailable, errors.New("the disk is full"))
}
