// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/trials.h"

#include "bench/connect/rows.h"

namespace verbena::connect {
namespace {

class CellTrial : public bench::Trial {
public:
	CellTrial(Client& client, Connector& connector, std::string connect, std::uint32_t clients, std::uint32_t count)
		: client_(client), connector_(connector), connect_(std::move(connect)), clients_(clients), count_(count) {}

	bool can_run() const override { return true; }

	bench::Measured measure(const bench::ShowStep&) override {
		const auto repetition = std::make_unique<Repetition>(Repetition{.clients = clients_, .count = count_});
		try {
			client_.measure(connector_, *repetition);
		} catch (const bench::Failure&) {
			// Connections of a repetition that failed may still be under way, so no other can run.
			return {.repetition = json_of(connect_, *repetition), .failed = true, .far_end_lost = true};
		}
		return {.repetition = json_of(connect_, *repetition)};
	}

	bench::Json row(bench::Json repetitions) const override {
		return row_of(connect_, clients_, count_, std::move(repetitions));
	}

private:
	Client& client_;
	Connector& connector_;
	const std::string connect_;
	const std::uint32_t clients_, count_;
};

}  // namespace

std::vector<std::unique_ptr<bench::Trial>> trials_of(Client& client, Connector& connector, const std::string& connect,
	std::span<const std::uint64_t> clients, std::uint32_t count) {
	std::vector<std::unique_ptr<bench::Trial>> trials;
	for (const std::uint64_t each : clients)
		trials.push_back(
			std::make_unique<CellTrial>(client, connector, connect, static_cast<std::uint32_t>(each), count));
	return trials;
}

}  // namespace verbena::connect
