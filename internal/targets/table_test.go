package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	targets := []target{
		{"Boot/amd64", "boot/floor", most, 1.6},
		{"Exec/true", "exec/ssh", most, 0.38},
		{"Stream", "stream/vsock", least, 0.7},
		{"Stream", "stream/alone", least, 0.05},
		{"Up", "up/floor", most, 1.7},
	}
	output := `goos: linux
BenchmarkBoot/amd64/tcg-2         	       1	         3.905 boot-s	         1.358 boot/floor
BenchmarkExec/true-2              	1000000000	        53.57 exec-ms	         0.4563 exec/ssh
--- BENCH: BenchmarkStream-2
    stream_test.go:1: Up/amd64 1 1 up/floor
BenchmarkStream-2                 	       1	         0.07974 stream/alone	         0.1300 stream/vsock
BenchmarkUp
PASS
ok  	osaurus-sandbox/bench	716.087s
`
	measured, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	missing := table(&got, targets, measured)
	want := `| | measured | target | |
| --- | --- | --- | --- |
| Boot/amd64/tcg boot/floor | 1.36 | at most 1.6 | met |
| Exec/true exec/ssh | 0.456 | at most 0.38 | **not met** |
| Stream stream/vsock | 0.13 | at least 0.7 | **not met** |
| Stream stream/alone | 0.0797 | at least 0.05 | met |
| Up up/floor | | at most 1.7 | not measured |
`
	if got.String() != want || missing != 1 {
		t.Errorf("%d missing\n%s", missing, got.String())
	}
}

func TestNotMeasuredIsAFailure(t *testing.T) {
	if err := run(strings.NewReader("PASS\n"), &strings.Builder{}); err == nil {
		t.Error("nothing was measured, and that is fine")
	}
}
