// SPDX-License-Identifier: Apache-2.0
// What `torchweave bench comm` measures, and what it makes of the times. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <tw/base/call.hpp>
#include <vector>

namespace tw::tool {

/// All that is measured, in order. Collective::send stands for ping-pong: pairs of ranks send a message there and back.
const std::vector<Collective>& bench_operations();
/// "barrier", "broadcast", ..., "ping_pong".
std::string bench_name(Collective operation);

/// Bytes of one call on `ranks` ranks, ascending: from `min_bytes` by factors of 4, then `max_bytes` itself. Each is rounded down to whole float32,
/// of all-gather, reduce-scatter and all-to-all for every rank, at least one. A barrier has one size, 0.
std::vector<int64_t> message_sizes(Collective operation, int64_t min_bytes, int64_t max_bytes, int ranks);

/// Timed calls of one size: 200 of small messages, 10 of large ones.
int default_rounds(int64_t bytes);

/// Times of equal calls.
struct Times {
  double median_us = 0;
  double spread = 0;  ///< (p90 - p10) / median
};
/// @param us at least one.
Times summarise(std::vector<double> us);

/// In 10^9 bytes a second.
struct Bandwidth {
  double algorithm_gbps = 0;  ///< n / t
  double bus_gbps = 0;        ///< what each rank's link carries at least, for comparison with hardware
};
/// n is `bytes`: the tensor that is reduced or broadcast or sent; what all ranks gather, scatter or exchange. Over p ranks the bus carries 2n(p-1)/p
/// of an all-reduce, n(p-1)/p of a reduce-scatter or an all-gather, n of the others. Ref: NVIDIA, nccl-tests, PERFORMANCE.md (which counts n(p-1)/p
/// of an all-to-all).
Bandwidth bandwidth(Collective operation, int64_t bytes, int ranks, double us);

/// "8 B", "24 KiB", "1.5 MiB"; one digit after the point where it is not whole.
std::string size_text(int64_t bytes);

}  // namespace tw::tool
