// SPDX-License-Identifier: Apache-2.0
// The operations and message sizes of `torchweave bench comm`, and statistics of the times. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::tool {

/// All operations that are measured, in this order. Collective::send stands for ping-pong: pairs of ranks send a message there and back.
const std::vector<Collective>& bench_operations();
/// "barrier", "broadcast", ..., "ping_pong".
std::string bench_name(Collective operation);

/// Bytes of one call on `ranks` ranks, ascending: from `min_bytes` by factors of 4, then `max_bytes` itself. Each is rounded down to a multiple of
/// one float32 (all-gather, reduce-scatter and all-to-all: of one float32 per rank), and is at least that. A barrier has one size, 0.
std::vector<int64_t> message_sizes(Collective operation, int64_t min_bytes, int64_t max_bytes, int ranks);

/// The default number of timed calls of this size: 200 for small messages, down to 10 for large ones.
int default_rounds(int64_t bytes);

/// Statistics of the times of equal calls.
struct Times {
  double median_us = 0;
  double spread = 0;  ///< (p90 - p10) / median
};
/// @param us times in microseconds, at least one
Times summarise(std::vector<double> us);

/// Bandwidths in 10^9 bytes per second.
struct Bandwidth {
  double algorithm_gbps = 0;  ///< n / t
  double bus_gbps = 0;        ///< traffic that each rank's link must carry, for comparison with hardware
};
/// n is `bytes`: the size of the tensor that is reduced, broadcast or sent, or the total that all ranks gather, scatter or exchange. With p ranks,
/// the bus carries 2n(p-1)/p for an all-reduce, n(p-1)/p for a reduce-scatter or an all-gather, and n for the others. Ref: NVIDIA, nccl-tests,
/// PERFORMANCE.md (which counts n(p-1)/p for an all-to-all).
Bandwidth bandwidth(Collective operation, int64_t bytes, int ranks, double us);

/// "8 B", "24 KiB", "1.5 MiB"; with one digit after the point unless the number is whole.
std::string size_text(int64_t bytes);

}  // namespace tw::tool
