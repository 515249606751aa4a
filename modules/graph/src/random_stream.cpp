// SPDX-License-Identifier: Apache-2.0
#include <tw/graph/random_stream.hpp>

#include <utility>

namespace tw::graph {
namespace {

thread_local uint64_t current_stream = 0;

}  // namespace

RandomStream::RandomStream(uint64_t number) noexcept : before_(std::exchange(current_stream, number)) {}
RandomStream::~RandomStream() { current_stream = before_; }
uint64_t RandomStream::here() noexcept { return current_stream; }

}  // namespace tw::graph
