// SPDX-License-Identifier: Apache-2.0
// NCCL, or RCCL, which has the same interface: the one that LibTorch has loaded, or the one that the loader finds. It needs no NCCL header, so one
// build serves machines with and without NCCL. Names, numbers and layouts follow NCCL's C interface (nccl.h), which is stable across versions.
#pragma once
#include <climits>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tw/base/element.hpp>

namespace tw::nccl {

struct Comm;  // ncclComm
struct Id {   // ncclUniqueId
  char bytes[128];
};

/// ncclResult_t; other values are errors.
enum class Result : int { success = 0, in_progress = 7 };
/// ncclRedOp_t
enum class Op : int { sum, product, max, min, average };
/// ncclDataType_t
enum class Type : int { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 };

/// ncclConfig_t of version 2.17, which later versions accept.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // undefined
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

/// The library's functions.
struct Library {
  Result (*get_version)(int*);
  Result (*get_unique_id)(Id*);
  Result (*comm_init_rank_config)(Comm**, int ranks, Id, int rank, Config*);
  Result (*comm_abort)(Comm*);
  Result (*comm_get_async_error)(Comm*, Result*);
  const char* (*get_error_string)(Result);
  const char* (*get_last_error)(Comm*);
  Result (*all_reduce)(const void*, void*, size_t, Type, Op, Comm*, void* stream);
  Result (*reduce)(const void*, void*, size_t, Type, Op, int root, Comm*, void* stream);
  Result (*reduce_scatter)(const void*, void*, size_t each, Type, Op, Comm*, void* stream);
  Result (*all_gather)(const void*, void*, size_t each, Type, Comm*, void* stream);
  Result (*broadcast)(const void*, void*, size_t, Type, int root, Comm*, void* stream);
  Result (*send)(const void*, size_t, Type, int peer, Comm*, void* stream);
  Result (*receive)(void*, size_t, Type, int peer, Comm*, void* stream);
  Result (*group_start)();
  Result (*group_end)();

  /// This process's library for devices of `kind`; null if there is none, or only one before 2.17. RCCL is "cuda" too, as in LibTorch.
  static const Library* find(std::string_view kind);
  /// Makes find() return `other` from now on, for tests.
  static void replace(const Library* other);
};

}  // namespace tw::nccl
