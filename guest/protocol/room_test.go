package protocol

import (
	"strings"
	"testing"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/subnet"
)

func TestCheckRoom(t *testing.T) {
	good := func() *guestpb.Room {
		return &guestpb.Room{User: "agent-alice", Uid: 2001, Home: HomesDir + "/alice", Hostname: "alice", Limits: &guestpb.Limits{}}
	}
	for _, address := range [][]byte{nil, {198, 18, 128, 2}, {198, 18, 255, 255}} {
		r := good()
		r.Address = address
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
	} {
		r := good()
		change(r)
		if err := CheckRoom(r); err == nil {
			t.Errorf("%v passed", r)
		}
	}
}
