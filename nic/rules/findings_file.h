// SPDX-License-Identifier: Apache-2.0
// For tests of the book: a file of findings, which the destructor removes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace verbena::rules {

class FindingsFile {
public:
	FindingsFile() { close(mkstemp(path_.data())); }
	~FindingsFile() { unlink(path_.c_str()); }
	FindingsFile(const FindingsFile&) = delete;
	FindingsFile& operator=(const FindingsFile&) = delete;

	const std::string& path() const { return path_; }
	std::string text() const {
		std::ostringstream out;
		out << std::ifstream(path_).rdbuf();
		return out.str();
	}

private:
	std::string path_ = testing::TempDir() + "findings-XXXXXX";
};

}  // namespace verbena::rules
