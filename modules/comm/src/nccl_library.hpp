// SPDX-License-Identifier: Apache-2.0
// NCCL, or RCCL, which is called alike: what LibTorch's own build has loaded, or what the loader finds. No header of theirs is needed, so that one
// build of ours serves machines with and without. Names, numbers and layouts are those of NCCL's C interface (nccl.h), which it keeps from version to
// version.
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

/// ncclResult_t; others are errors.
enum class Result : int { success = 0, in_progress = 7 };
/// ncclRedOp_t
enum class Op : int { sum, product, max, min, average };
/// ncclDataType_t
enum class Type : int { int8, uint8, int32, uint32, int64, uint64, float16, float32, float64, bfloat16 };

/// ncclConfig_t as of version 2.17, which later ones take.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21700;
  int blocking = 0;
  int cga_cluster_size = INT_MIN;  // not given
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
};

/// Its functions.
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

  /// The one of this process for devices of this kind; null where there is none, or one before 2.17. "cuda" has one, as LibTorch calls HIP's too.
  static const Library* find(std::string_view kind);
  /// From now on find() gives `other`: for tests.
  static void replace(const Library* other);
};

}  // namespace tw::nccl
