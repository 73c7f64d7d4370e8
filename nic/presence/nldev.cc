// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/nldev.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "nic/presence/render.h"

namespace verbena::presence {
namespace {

constexpr unsigned client_nldev = 5;

enum Command : std::uint16_t {
	get = 1,
	port_get = 5,
	sys_get = 6,
	res_get = 9,
	res_qp_get = 10,
	res_cm_id_get = 11,
	res_cq_get = 12,
	res_mr_get = 13,
	res_pd_get = 14,
	get_chardev = 15,
	res_ctx_get = 22,
	res_srq_get = 23,
};

enum Attribute : std::uint16_t {
	dev_index = 1,
	dev_name = 2,
	port_index = 3,
	cap_flags = 4,
	fw_version = 5,
	node_guid = 6,
	sys_image_guid = 7,
	port_state = 12,
	port_phys_state = 13,
	dev_node_type = 14,
	res_summary = 15,
	ndev_index = 50,
	ndev_name = 51,
	sys_netns_mode = 66,
	dev_protocol = 67,
	chardev_type = 69,
	chardev_name = 70,
	chardev_abi = 71,
	chardev = 72,
	sys_copy_on_fork = 93,
};

constexpr std::uint16_t type_of(std::uint16_t command) { return client_nldev << 10 | command; }

// Builds one netlink message.
class Message {
public:
	Message(const nlmsghdr& request, std::uint32_t port, std::uint16_t type, std::uint16_t flags) {
		append(nlmsghdr{.nlmsg_len = 0,
			.nlmsg_type = type,
			.nlmsg_flags = flags,
			.nlmsg_seq = request.nlmsg_seq,
			.nlmsg_pid = port});
	}

	template <class T> void append(const T& value) { append_bytes(&value, sizeof value); }
	template <class T> void add(Attribute type, const T& value) {
		add_bytes(type, {reinterpret_cast<const std::byte*>(&value), sizeof value});
	}
	void add(Attribute type, const std::string& text) {
		add_bytes(type, {reinterpret_cast<const std::byte*>(text.c_str()), text.size() + 1});
	}
	void add_empty(Attribute type) { add_bytes(static_cast<Attribute>(type | NLA_F_NESTED), {}); }

	Datagram take() {
		const auto length = static_cast<std::uint32_t>(bytes_.size());
		std::memcpy(bytes_.data(), &length, sizeof length);
		return std::move(bytes_);
	}

private:
	void add_bytes(Attribute type, std::span<const std::byte> value) {
		append(nlattr{static_cast<std::uint16_t>(NLA_HDRLEN + value.size()), type});
		append_bytes(value.data(), value.size());
		bytes_.resize(NLMSG_ALIGN(bytes_.size()));
	}

	void append_bytes(const void* first, std::size_t size) {
		const std::size_t at = bytes_.size();
		bytes_.resize(at + size);
		if (size > 0) std::memcpy(bytes_.data() + at, first, size);
	}

	Datagram bytes_;
};

// A request, and the value of an attribute in it.
struct Request {
	nlmsghdr header;
	std::span<const std::byte> attributes;

	std::span<const std::byte> find(Attribute type) const {
		std::span<const std::byte> rest = attributes;
		nlattr attribute;
		while (rest.size() >= sizeof attribute) {
			std::memcpy(&attribute, rest.data(), sizeof attribute);
			if (attribute.nla_len < sizeof attribute || attribute.nla_len > rest.size()) break;
			if ((attribute.nla_type & NLA_TYPE_MASK) == type)
				return rest.subspan(NLA_HDRLEN, attribute.nla_len - NLA_HDRLEN);
			rest = rest.subspan(std::min<std::size_t>(NLA_ALIGN(attribute.nla_len), rest.size()));
		}
		return {};
	}
	std::optional<std::uint32_t> number(Attribute type) const {
		const auto value = find(type);
		std::uint32_t number;
		if (value.size() != sizeof number) return std::nullopt;
		std::memcpy(&number, value.data(), sizeof number);
		return number;
	}
	std::string_view text(Attribute type) const {
		const auto value = find(type);
		const std::string_view text(reinterpret_cast<const char*>(value.data()), value.size());
		return text.substr(0, text.find('\0'));
	}
	bool dump() const { return (header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP; }
};

void add_name(Message& message, const DeviceFacts& device) {
	message.add(dev_index, device.number);
	message.add(dev_name, device.name);
}

void add_device(Message& message, const DeviceFacts& device) {
	add_name(message, device);
	message.add(port_index, std::uint32_t{1});  // the number of ports
	message.add(cap_flags, device.capabilities);
	message.add(fw_version, device.firmware);
	message.add(node_guid, device.node_guid);
	message.add(sys_image_guid, device.sys_image_guid);
	message.add(dev_node_type, std::uint8_t{1});  // CA
	message.add(dev_protocol, std::string(device.port.ethernet ? "roce" : "ib"));
}

void add_port(Message& message, const DeviceFacts& device) {
	add_name(message, device);
	message.add(port_index, std::uint32_t{1});
	message.add(port_state, static_cast<std::uint8_t>(device.port.state));
	message.add(port_phys_state, static_cast<std::uint8_t>(device.port.phys_state));
	message.add(ndev_index, device.interface_index);
	message.add(ndev_name, device.interface);
}

// The character device uverbsN. The number is that of the kernel's new_encode_dev().
void add_character_device(Message& message, const DeviceFacts& device) {
	const std::uint64_t minor = device_minor_of_first + device.number;
	message.add(chardev, (minor & 0xff) | std::uint64_t{device_major} << 8 | (minor & ~std::uint64_t{0xff}) << 12);
	message.add(chardev_abi, std::uint64_t{1});
	message.add(chardev_name, "uverbs" + std::to_string(device.number));
}

// The answers to one send of the program.
class Answers {
public:
	Answers(std::span<const DeviceFacts> devices, std::uint32_t port) : devices_(devices), port_(port) {}

	void serve(const Request& request) {
		const std::uint16_t type = request.header.nlmsg_type;
		if (type < NLMSG_MIN_TYPE) return;  // a control message, which the kernel ignores too
		const int error = type >> 10 == client_nldev ? serve_command(request, type & 0x3ff) : -EOPNOTSUPP;
		if (error != 0 || ((request.header.nlmsg_flags & NLM_F_ACK) && !request.dump())) acknowledge(request, error);
	}
	std::vector<Datagram> take() { return std::move(datagrams_); }

private:
	// Returns 0 or a negative errno value.
	int serve_command(const Request& request, std::uint16_t command) {
		switch (command) {
			case get: return request.dump() ? dump(request, command, add_device) : one(request, command, add_device);
			case port_get: return get_port(request);
			case sys_get: return get_system(request);
			case res_get: {
				const auto summary = [](Message& message, const DeviceFacts& device) {
					add_name(message, device);
					message.add_empty(res_summary);
				};
				return request.dump() ? dump(request, command, summary) : one(request, command, summary);
			}
			// The objects of a device are known in the process that has them, and nowhere else.
			case res_qp_get:
			case res_cm_id_get:
			case res_cq_get:
			case res_mr_get:
			case res_pd_get:
			case res_ctx_get:
			case res_srq_get: return request.dump() ? done(request) : -EINVAL;
			case get_chardev: return get_character_device(request);
			default: return -EOPNOTSUPP;
		}
	}

	const DeviceFacts* device_of(const Request& request) const {
		const auto index = request.number(dev_index);
		const auto found = std::ranges::find(devices_, index.value_or(0), &DeviceFacts::number);
		return index && found != devices_.end() ? &*found : nullptr;
	}

	template <class Add> int one(const Request& request, std::uint16_t command, Add&& add) {
		const DeviceFacts* device = device_of(request);
		if (!device) return -EINVAL;
		Message message(request.header, port_, type_of(command), 0);
		add(message, *device);
		send(message.take());
		return 0;
	}

	template <class Add> int dump(const Request& request, std::uint16_t command, Add&& add) {
		for (const DeviceFacts& device : devices_) {
			Message message(request.header, port_, type_of(command), NLM_F_MULTI);
			add(message, device);
			send(message.take());
		}
		return done(request);
	}

	int get_port(const Request& request) {
		const DeviceFacts* device = device_of(request);
		if (!device) return -EINVAL;
		if (!request.dump()) return request.number(port_index) == 1u ? one(request, port_get, add_port) : -EINVAL;
		Message message(request.header, port_, type_of(port_get), NLM_F_MULTI);
		add_port(message, *device);
		send(message.take());
		return done(request);
	}

	int get_system(const Request& request) {
		Message message(request.header, port_, type_of(sys_get), 0);
		message.add(sys_netns_mode, std::uint8_t{0});  // each network namespace has its own devices
		message.add(sys_copy_on_fork, std::uint8_t{1});  // fork needs no preparation
		send(message.take());
		return 0;
	}

	int get_character_device(const Request& request) {
		if (request.text(chardev_type) != "uverbs") return -EINVAL;
		return one(request, get_chardev, add_character_device);
	}

	int done(const Request& request) {
		Message message(request.header, port_, NLMSG_DONE, NLM_F_MULTI);
		message.append(std::int32_t{0});
		send(message.take());
		return 0;
	}

	void acknowledge(const Request& request, int error) {
		Message message(request.header, port_, NLMSG_ERROR, 0);
		message.append(nlmsgerr{.error = error, .msg = request.header});
		send(message.take());
	}

	void send(Datagram message) {
		if (datagrams_.empty() || datagrams_.back().size() + message.size() > datagram_size_max)
			datagrams_.emplace_back();
		Datagram& last = datagrams_.back();
		last.insert(last.end(), message.begin(), message.end());
	}

	std::span<const DeviceFacts> devices_;
	std::uint32_t port_;
	std::vector<Datagram> datagrams_;
};

}  // namespace

std::vector<Datagram> answer(
	std::span<const std::byte> requests, std::span<const DeviceFacts> devices, std::uint32_t port) {
	Answers answers(devices, port);
	Request request;
	while (requests.size() >= NLMSG_HDRLEN) {
		std::memcpy(&request.header, requests.data(), sizeof request.header);
		const std::size_t length = request.header.nlmsg_len;
		if (length < NLMSG_HDRLEN || length > requests.size()) break;
		request.attributes = requests.subspan(NLMSG_HDRLEN, length - NLMSG_HDRLEN);
		answers.serve(request);
		requests = requests.subspan(std::min<std::size_t>(NLMSG_ALIGN(length), requests.size()));
	}
	return answers.take();
}

}  // namespace verbena::presence
