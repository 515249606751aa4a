// SPDX-License-Identifier: Apache-2.0
#include "message_of.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <tw/base/error.hpp>
#include <tw/shared_memory/segment.hpp>
#include <utility>
#include <vector>

namespace segment_test {

using namespace tw::shared_memory;
using tw::testing::message_of;
using namespace std::chrono_literals;

constexpr auto long_enough = 30s;

void serve(DescriptorServer& server, const Descriptor& descriptor, int receivers) {
  const auto end = std::chrono::steady_clock::now() + long_enough;
  for (int served = 0; served < receivers && std::chrono::steady_clock::now() < end; std::this_thread::yield()) served += server.serve(descriptor);
}

Descriptor receive(const std::string& address) {
  const auto end = std::chrono::steady_clock::now() + long_enough;
  DescriptorReceiver receiver(address);
  for (; std::chrono::steady_clock::now() < end; std::this_thread::yield()) {
    if (auto descriptor = receiver.receive()) return std::move(*descriptor);
  }
  throw tw::Error("nobody served");
}

int64_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries));
}

// Runs `body` in a separate process, whose exit status is success if `body` returns true.
pid_t fork_process(const std::function<bool()>& body) {
  const pid_t process = ::fork();
  if (process == 0) {
    bool good = false;
    try {
      good = body();
    } catch (const std::exception& error) {
      std::fputs(error.what(), stderr);
    }
    ::_exit(good ? 0 : 1);
  }
  return process;
}

bool succeeds(pid_t process) {
  int status = -1;
  return ::waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Memory, IsSharedByTheProcessesThatWereGivenIt) {
  constexpr int64_t size = 3 << 20;
  const int64_t before = open_descriptors();
  {
    DescriptorServer server;
    std::vector<pid_t> processes;
    for (int rank = 1; rank <= 3; ++rank) {
      processes.push_back(fork_process([&server, rank] {
        const Mapping mapping(receive(server.address()), size);  // the descriptor is closed at once
        const auto bytes = mapping.bytes();
        const bool zeroed = bytes[size - 1] == std::byte{0};
        bytes[static_cast<size_t>(rank)] = static_cast<std::byte>(rank);
        return zeroed && bytes.size() == size && bytes[0] == std::byte{42};
      }));
    }
    const Descriptor memory = make_memory(size);
    const Mapping mapping(memory, size);
    EXPECT_TRUE(std::all_of(mapping.bytes().begin(), mapping.bytes().end(), [](std::byte byte) { return byte == std::byte{0}; }));
    mapping.bytes()[0] = std::byte{42};
    serve(server, memory, 3);
    for (const pid_t process : processes) EXPECT_TRUE(succeeds(process));
    for (size_t rank = 1; rank <= 3; ++rank) EXPECT_EQ(mapping.bytes()[rank], static_cast<std::byte>(rank));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Memory, HasNoName) {
  const auto names = [] {
    const std::filesystem::directory_iterator entries("/dev/shm");
    return std::count_if(begin(entries), end(entries),
                         [](const auto& entry) { return entry.path().string().find("torchweave") != std::string::npos; });
  };
  const auto before = names();
  const Mapping mapping(make_memory(4096), 4096);
  EXPECT_EQ(names(), before);
}

TEST(Memory, OfAbsurdSizeIsRefusedByName) {
  const int64_t before = open_descriptors();
  constexpr int64_t size = int64_t{1} << 60;  // more than any address space
  const std::string text = message_of([] { const Mapping mapping(make_memory(size), size); });
  EXPECT_NE(text.find("1152921504606846976 bytes"), std::string::npos) << text;
  EXPECT_NE(message_of([] { make_memory(-1); }).find("-1 bytes"), std::string::npos);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Mapping, MovesAndUnmapsOnce) {
  const auto is_mapped = [](const void* begin) {
    std::array<unsigned char, 1> resident{};
    return ::mincore(const_cast<void*>(begin), 1, resident.data()) == 0;
  };
  Mapping first(make_memory(4096), 4096);
  const std::byte* begin = first.bytes().data();
  first.bytes()[7] = std::byte{7};
  Mapping second(std::move(first));
  EXPECT_EQ(second.bytes().data(), begin);
  EXPECT_TRUE(first.bytes().empty());  // NOLINT(bugprone-use-after-move): that is what is tested
  {
    Mapping third;
    EXPECT_TRUE(third.bytes().empty());
    third = std::move(second);
    EXPECT_EQ(third.bytes()[7], std::byte{7});
    EXPECT_TRUE(is_mapped(begin));
  }
  EXPECT_FALSE(is_mapped(begin));
}

TEST(Descriptor, MovesAndClosesOnce) {
  const int64_t before = open_descriptors();
  {
    Descriptor first = make_memory(4096);
    const int value = first.get();
    Descriptor second(std::move(first));
    EXPECT_EQ(second.get(), value);
    EXPECT_EQ(first.get(), -1);  // NOLINT(bugprone-use-after-move): that is what is tested
    second = make_memory(4096);  // the first memory's descriptor is closed
    EXPECT_EQ(open_descriptors(), before + 1);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorServer, WaitsForNobody) {
  const int64_t before = open_descriptors();
  {
    DescriptorServer server;
    const Descriptor memory = make_memory(4096);
    EXPECT_EQ(server.serve(memory), 0);
    DescriptorReceiver first(server.address());
    DescriptorReceiver second(server.address());
    EXPECT_FALSE(first.receive().has_value());
    EXPECT_EQ(server.serve(memory), 2);
    EXPECT_TRUE(second.receive().has_value());
    EXPECT_TRUE(first.receive().has_value());
    EXPECT_EQ(server.serve(memory), 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorServer, ItsReceiversHearThatItIsGone) {
  const int64_t before = open_descriptors();
  auto server = std::make_optional<DescriptorServer>();
  const std::string address = server->address();
  {
    DescriptorReceiver waiting(address);
    server.reset();
    EXPECT_NE(message_of([&] { waiting.receive(); }).find("recvmsg"), std::string::npos);
  }
  EXPECT_NE(message_of([&] { DescriptorReceiver{address}; }).find("connect"), std::string::npos) << "nobody listens";
  EXPECT_EQ(open_descriptors(), before);
}

TEST(DescriptorServer, TwoDoNotMeet) {
  const DescriptorServer first;
  const DescriptorServer second;
  EXPECT_NE(first.address(), second.address());
}

}  // namespace segment_test
