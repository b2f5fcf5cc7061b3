package protocol

import (
	"encoding/pem"
	"strings"
	"testing"

	"osaurus-sandbox/engine"
	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/subnet"
)

// trust returns a certificate of n bytes, which is not parsed.
func trust(kind string, n int, environment ...string) *guestpb.Trust {
	return &guestpb.Trust{Certificate: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: make([]byte, n)}), Environment: environment}
}

func TestCheckRoom(t *testing.T) {
	good := func() *guestpb.Room {
		return &guestpb.Room{User: "agent-alice", Uid: 2001, Home: HomesDir + "/alice", Hostname: "alice", Limits: &guestpb.Limits{}}
	}
	for _, address := range [][]byte{nil, {198, 18, 128, 2}, {198, 18, 255, 255}} {
		r := good()
		r.Address = address
		r.Trust = trust("CERTIFICATE", 700, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt")
		if err := CheckRoom(r); err != nil {
			t.Error(err)
		}
	}
	for _, change := range []func(*guestpb.Room){
		func(r *guestpb.Room) { r.User = "root" }, func(r *guestpb.Room) { r.User = "-x" }, func(r *guestpb.Room) { r.User = "a/../b" },
		func(r *guestpb.Room) { r.User = ".init" }, func(r *guestpb.Room) { r.User = strings.Repeat("a", 33) },
		func(r *guestpb.Room) { r.Uid = 0 }, func(r *guestpb.Room) { r.Uid = 999 },
		func(r *guestpb.Room) { r.Home = "/etc" }, func(r *guestpb.Room) { r.Home = HomesDir + "/.." },
		func(r *guestpb.Room) { r.Home = HomesDir + "/a/b" }, func(r *guestpb.Room) { r.Home = HomesDir + "/a\nb" },
		func(r *guestpb.Room) { r.Hostname = "a b" },
		func(r *guestpb.Room) { r.Address = []byte{10, 0, 2, 15} }, func(r *guestpb.Room) { r.Address = subnet.Rooms().Addr().AsSlice() },
		func(r *guestpb.Room) { r.Address = subnet.RoomRouter().AsSlice() }, func(r *guestpb.Room) { r.Address = []byte{198, 18, 200} },
		func(r *guestpb.Room) { b := subnet.RoomRouter().Next().As16(); r.Address = b[:] },
		func(r *guestpb.Room) { r.Limits.CpuWeight = 10001 }, func(r *guestpb.Room) { r.Limits.MemoryBytes = 1 },
		func(r *guestpb.Room) { r.Trust = &guestpb.Trust{} }, func(r *guestpb.Room) { r.Trust = trust("KEY", 1) },
		func(r *guestpb.Room) { r.Trust = trust("CERTIFICATE", engine.MaxCertificate) },
		func(r *guestpb.Room) { r.Trust = trust("CERTIFICATE", 1, "NAME") }, func(r *guestpb.Room) { r.Trust = trust("CERTIFICATE", 1, "A=\x00") },
		func(r *guestpb.Room) { r.Trust = trust("CERTIFICATE", 1, make([]string, maxTrustVariables+1)...) },
		func(r *guestpb.Room) {
			t := trust("CERTIFICATE", 1)
			t.Certificate = append(t.Certificate, "more"...)
			r.Trust = t
		},
	} {
		r := good()
		change(r)
		if err := CheckRoom(r); err == nil {
			t.Errorf("%v passed", r)
		}
	}
}
