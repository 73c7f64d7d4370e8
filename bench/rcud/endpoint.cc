#include "bench/rcud/endpoint.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace verbena::rcud {
namespace {

constexpr std::size_t huge_page = 2u << 20;
constexpr std::uint32_t reads_wanted = 16;

std::uint32_t lines(std::uint64_t bytes) { return static_cast<std::uint32_t>((bytes + 63) & ~std::uint64_t{63}); }

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_((bytes + huge_page - 1) / huge_page * huge_page) {
	void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) throw Failure(lib::failure("mmap", errno));
	madvise(at, size_, MADV_HUGEPAGE);
	data_ = static_cast<std::byte*>(at);
	std::memset(data_, 0, bytes);
}

Buffer::~Buffer() { munmap(data_, size_); }

Endpoint::Endpoint(const lib::OpenDevice& device_, const Cell& cell_, const Shape& shape_, Role role_,
	std::uint32_t inline_wanted, std::uint32_t qkey_, rdma_cm_id* connection)
	: device(device_),
	  cell(cell_),
	  shape(shape_),
	  role(role_),
	  qkey(qkey_),
	  // A sender receives only UD credits and reports.
	  receive_count(role_ == Role::receiver ? shape_.receive_depth : 64 + cell_.window / shape_.credit_every),
	  receive_payload(role_ == Role::receiver && cell_.op == Op::send
			  ? shape_.fragments == 1 ? cell_.msg : shape_.fragment_bytes + fragment_header_bytes
			  : 64),
	  receive_stride(lines(receive_payload) + (is_ud() ? 64 : 0)),
	  // More than the window: a run that ended early may leave unsignaled requests in the send
      // queue.
	  send_depth(role_ == Role::sender ? (cell_.window + shape_.signal_every) * shape_.fragments : word_count),
	  slot_count(role_ == Role::sender ? cell_.window : shape_.ring_slots),
	  receive_bytes_(std::size_t{receive_count} * receive_stride),
	  slot_bytes_(std::size_t{slot_count} * shape_.stride),
	  header_bytes_(shape_.fragments > 1 && role_ == Role::sender
			  ? lines(std::size_t{slot_count} * shape_.fragments * fragment_header_bytes)
			  : 0),
	  memory_(receive_bytes_ + slot_bytes_ + header_bytes_ + word_count * sizeof(std::uint64_t)),
	  receives_(memory_.data()),
	  slots_(receives_ + receive_bytes_) {
	headers = slots_ + slot_bytes_;
	words = reinterpret_cast<std::uint64_t*>(headers + header_bytes_);

	cq = take(lib::make_completion_queue(device.context.get(), static_cast<int>(send_depth + receive_count)));
	memory = take(lib::make_memory_region(device.domain.get(), memory_.data(), memory_.size(),
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
	auto made = take(lib::make_queue_pair(device, cq.get(),
		{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
			.send_depth = send_depth,
			.receive_depth = receive_count,
			.send_sge_max = shape.fragments > 1 ? 2u : 1u,
			.inline_wanted = inline_wanted,
			.connection = connection}));
	qp = std::move(made.qp);
	inline_max = made.inline_max;
	if (is_ud()) take(lib::ud_start(qp.get(), device, qkey, psn));
	else if (connection == nullptr)
		take(lib::rc_to_init(qp.get(), device, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
}

Address Endpoint::address() const {
	return {.qpn = qp->qp_num,
		.psn = psn,
		.qkey = qkey,
		.lid = device.port.lid,
		.mtu = device.mtu_bytes(),
		.reads = std::clamp(static_cast<std::uint32_t>(device.attributes.max_qp_rd_atom), 1u, reads_wanted),
		.gid = lib::format_gid(device.choice.gid),
		.data = reinterpret_cast<std::uint64_t>(slots_),
		.data_rkey = memory->rkey,
		.credit_word = reinterpret_cast<std::uint64_t>(words)};
}

void Endpoint::connect(const Address& peer) {
	remote = peer;
	const lib::RemoteEnd end{.qpn = peer.qpn,
		.psn = peer.psn,
		.lid = static_cast<std::uint16_t>(peer.lid),
		.gid = take(lib::parse_gid(peer.gid))};
	if (is_ud()) {
		ah = take(lib::make_address_handle(device.domain.get(), lib::address_of(device, end)));
		return;
	}
	const auto initiator_max = static_cast<std::uint32_t>(std::max(device.attributes.max_qp_init_rd_atom, 1));
	take(lib::rc_connect(qp.get(), device, end,
		{.mtu_bytes = std::min(peer.mtu, device.mtu_bytes()),
			.local_psn = psn,
			.reads_as_target = static_cast<std::uint8_t>(address().reads),
			.reads_as_requester = static_cast<std::uint8_t>(std::min({peer.reads, initiator_max, reads_wanted}))}));
}

}  // namespace verbena::rcud
