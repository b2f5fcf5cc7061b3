// Package onshare tests a shared folder from inside a guest: package e2e runs
// its test binary there. Run on a host, it tests an ordinary folder, which shows
// that the tests ask for nothing that Linux does not give.
package onshare
