// SPDX-License-Identifier: Apache-2.0
// The commands of devices and contexts.
#include <arpa/inet.h>
#include <poll.h>
#include <sys/mman.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "commands.h"

namespace {

void open(const std::string& name) {
	ibv_device** list = demand(ibv_get_device_list(nullptr));
	ibv_device* found = nullptr;
	for (ibv_device** at = list; *at; ++at)
		if (name == ibv_get_device_name(*at)) found = *at;
	if (!found) throw Failure{ENODEV};
	auto c = std::make_unique<Context>();
	c->context = demand(ibv_open_device(found));
	ibv_free_device_list(list);
	c->pd = demand(ibv_alloc_pd(c->context));
	c->channel = demand(ibv_create_comp_channel(c->context));
	c->cq = demand(ibv_create_cq(c->context, 4096, nullptr, c->channel, 0));
	demand(ibv_query_gid(c->context, 1, 0, &c->gid));
	ibv_port_attr port;
	demand(ibv_query_port(c->context, 1, &port));
	c->mtu = port.active_mtu;
	c->scratch = map_region(c->pd, scratch_bytes);
	ibv_ah_attr to{.grh = {.dgid = c->gid, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	c->ah = demand(ibv_create_ah(c->pd, &to));
	contexts.push_back(std::move(c));
}

std::string text_of(const ibv_gid& gid) {
	char text[INET6_ADDRSTRLEN];
	return inet_ntop(AF_INET6, gid.raw, text, sizeof text);
}

void list_devices(std::ostream& out) {
	ibv_device** list = demand(ibv_get_device_list(nullptr));
	for (ibv_device** at = list; *at; ++at) out << ' ' << ibv_get_device_name(*at);
	ibv_free_device_list(list);
}

void report_port(std::ostream& out) {
	ibv_port_attr port;
	demand(ibv_query_port(current().context, 1, &port));
	out << (port.state == IBV_PORT_ACTIVE        ? " ACTIVE"
				   : port.state == IBV_PORT_DOWN ? " DOWN"
												 : " OTHER")
		<< (port.phys_state == 5          ? " LINK_UP"
				   : port.phys_state == 2 ? " POLLING"
				   : port.phys_state == 3 ? " DISABLED"
										  : " OTHER")
		<< ' ' << (128 << port.active_mtu);
}

void list_gids(std::ostream& out) {
	ibv_gid_entry entries[256];
	const ssize_t count = ibv_query_gid_table(current().context, entries, std::size(entries), 0);
	if (count < 0) throw Failure{static_cast<int>(-count)};
	for (ssize_t i = 0; i < count; ++i) out << ' ' << entries[i].gid_index << '=' << text_of(entries[i].gid);
}

std::string counter(const std::string& name) {
	std::ifstream file(current().context->device->ibdev_path + ("/ports/1/counters/" + name));
	std::string value;
	if (!(file >> value)) throw Failure{ENOENT};
	return value;
}

std::string await_event(int milliseconds) {
	ibv_context* context = current().context;
	pollfd readable{context->async_fd, POLLIN, 0};
	if (::poll(&readable, 1, milliseconds) != 1) throw Failure{ETIMEDOUT};
	ibv_async_event event;
	demand(ibv_get_async_event(context, &event));
	ibv_ack_async_event(&event);
	switch (event.event_type) {
		case IBV_EVENT_PORT_ACTIVE: return "PORT_ACTIVE";
		case IBV_EVENT_PORT_ERR: return "PORT_ERR";
		case IBV_EVENT_GID_CHANGE: return "GID_CHANGE";
		case IBV_EVENT_DEVICE_FATAL: return "DEVICE_FATAL";
		default: return ibv_event_type_str(event.event_type);
	}
}

void close_current() {
	Context& c = current();
	for (Pair& p : pairs)
		if (p.at == &c && p.qp) demand(ibv_destroy_qp(std::exchange(p.qp, nullptr)));
	for (Region& r : regions)
		if (r.mr && r.mr->context == c.context) demand(ibv_dereg_mr(std::exchange(r.mr, nullptr)));
	demand(ibv_destroy_ah(c.ah));
	demand(ibv_dereg_mr(c.scratch.mr));
	munmap(c.scratch.address, c.scratch.bytes);
	demand(ibv_destroy_cq(c.cq));
	demand(ibv_destroy_comp_channel(c.channel));
	demand(ibv_dealloc_pd(c.pd));
	demand(ibv_close_device(c.context));
	contexts.pop_back();
}

}  // namespace

bool obey_device(const std::string& word, std::istream& in, std::ostream& out) {
	if (word == "open") open(next<std::string>(in));
	else if (word == "close") close_current();
	else if (word == "devices") list_devices(out);
	else if (word == "port") report_port(out);
	else if (word == "gids") list_gids(out);
	else if (word == "counter") out << ' ' << counter(next<std::string>(in));
	else if (word == "event") out << ' ' << await_event(next<int>(in));
	else return false;
	return true;
}
