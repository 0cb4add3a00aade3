// Package origin decides whether an HTTP request may come from a page of the node itself. The browser of a person who may use the node
// sends requests on behalf of any page that is open in it.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
)

// IsOwnPage reports whether a request comes from a page of the node, from a user who typed the address, or from a program other than a
// browser. A browser sends neither header with a GET to http on another machine; such a request passes. http.CrossOriginProtection would
// let every GET pass.
func IsOwnPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host == r.Host
}

// Hosts are the names of a node. The owner of any other name could make it resolve to the node's address: a browser would then treat a page
// from there as one of the node's.
type Hosts struct{ names []string }

// NewHosts returns the names of a node: localhost, the name of the machine, the hosts in addresses (HOST:PORT), and more.
func NewHosts(addresses []string, more ...string) *Hosts {
	h := &Hosts{append([]string{"localhost"}, more...)}
	for _, address := range addresses {
		if host, _, err := net.SplitHostPort(address); err == nil {
			h.names = append(h.names, host)
		}
	}
	if host, err := os.Hostname(); err == nil {
		h.names = append(h.names, host)
	}
	return h
}

// Has reports whether a request asks for the node by one of its names, or by any IP address. It returns the name in the request.
func (h *Hosts) Has(r *http.Request) (name string, ok bool) {
	name = hostName(r.Host)
	return name, isAddress(name) || slices.ContainsFunc(h.names, func(own string) bool { return strings.EqualFold(own, name) })
}

// hostName removes the port, and a trailing dot of the name.
func hostName(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	return strings.TrimSuffix(host, ".")
}

// isAddress reports whether a host is an IP address or empty. It is empty in requests of HTTP 1.0, which no browser sends.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == ""
}
