// What one channel has offered its peer to fetch, oldest first: the windows by which it was lent. Offers have numbers, from 1.
#pragma once

#include <array>
#include <cstdint>

namespace verbena::channel {

class Offers {
public:
	static constexpr std::uint32_t max = 64;

	std::uint32_t count() const { return made_ - taken_; }
	std::uint32_t made() const { return made_; }
	bool was_taken(std::uint32_t number) const { return static_cast<std::int32_t>(taken_ - number) >= 0; }
	void add(std::uint32_t window) { windows_[made_++ % max] = window; }
	// The oldest one's window. There is one.
	std::uint32_t take() { return windows_[taken_++ % max]; }

private:
	std::array<std::uint32_t, max> windows_{};
	std::uint32_t made_ = 0, taken_ = 0;
};

}  // namespace verbena::channel
