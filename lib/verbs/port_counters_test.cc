// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/port_counters.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace verbena::lib {
namespace {

// The folder of a device, with these counters of its port 1.
class DeviceFolder {
public:
	DeviceFolder() {
		std::string name = std::filesystem::temp_directory_path() / "verbena-counters-XXXXXX";
		EXPECT_NE(mkdtemp(name.data()), nullptr);
		path_ = name;
	}
	~DeviceFolder() { std::filesystem::remove_all(path_); }
	DeviceFolder(const DeviceFolder&) = delete;
	DeviceFolder& operator=(const DeviceFolder&) = delete;

	void write(const std::string& counter, const std::string& text) const {
		const std::filesystem::path counters = path_ / "ports/1/hw_counters";
		std::filesystem::create_directories(counters);
		std::ofstream(counters / counter) << text;
	}
	const std::filesystem::path& path() const { return path_; }

private:
	std::filesystem::path path_;
};

TEST(PortCounters, AreTheNumbersInTheFolderOfThePort) {
	const DeviceFolder folder;
	folder.write("out_of_buffer", "7\n");
	folder.write("packet_seq_err", "12");
	folder.write("lifespan", "10\n");
	folder.write("unknown", "none\n");
	folder.write("too_much", "99999999999999999999999\n");
	folder.write("empty", "");
	std::string text;
	for (const PortCounter& each : hardware_counters(folder.path(), 1))
		text += each.name + " " + std::to_string(each.value) + "\n";
	EXPECT_EQ(text, "out_of_buffer 7\npacket_seq_err 12\n");
	EXPECT_TRUE(hardware_counters(folder.path(), 2).empty());
}

TEST(PortCounters, OfSeveralNamesForOneThingAreAdded) {
	const std::vector<PortCounter> counters{{"packet_seq_err", 12}, {"local_ack_timeout_err", 3}, {"other", 9}};
	const Retries retries = retries_of(counters);
	EXPECT_EQ(retries.retransmissions, 15u);
	EXPECT_FALSE(retries.rnr_naks_sent.has_value()) << "it is not known";
}

}  // namespace
}  // namespace verbena::lib
