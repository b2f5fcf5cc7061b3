// Package onshare tests a shared folder from inside a guest, where package e2e runs its test binary. On a host, it tests an ordinary folder, which shows that Linux passes these tests.
package onshare
