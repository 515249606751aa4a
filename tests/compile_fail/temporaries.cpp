// SPDX-License-Identifier: Apache-2.0
// What points into an object cannot be had from a temporary, which would be gone by the next statement: such a call does not compile, or returns a
// copy. And what keeps a reference to its argument does not take a temporary.
#include <tw/algorithms/selection.hpp>
#include <tw/base/file.hpp>
#include <tw/comm/mesh.hpp>
#include <tw/data/tensor_dataset.hpp>
#include <tw/data/torch_data.hpp>
#include <tw/evolution/configuration.hpp>
#include <tw/evolution/space.hpp>
#include <tw/gradients/reducer.hpp>
#include <tw/mpi/rpc_client.hpp>
#include <tw/parallel_in_time/mgrit.hpp>
#include <tw/parallel_in_time/newton.hpp>
#include <tw/planning/planner.hpp>
#include <tw/search/ledger.hpp>
#include <tw/state/checkpoint.hpp>
#include <tw/tensor/safetensors.hpp>

namespace {

using namespace tw;

template <class T, class Call>
concept allows = std::invocable<Call, T>;

template <class R>
constexpr bool points_elsewhere = std::is_reference_v<R> || std::is_pointer_v<R> || std::ranges::view<R>;

/// Whether `call` compiles for an object with a name, and for a temporary either does not compile or returns an object.
template <class T, class Call>
constexpr bool refuses(const Call&) {
  if constexpr (allows<T&&, Call>) {
    return allows<T&, Call> && !points_elsewhere<std::invoke_result_t<Call, T&&>>;
  } else {
    return allows<T&, Call>;
  }
}

#define CALL(...) [](auto&& t) -> decltype(std::forward<decltype(t)>(t).__VA_ARGS__) { return std::forward<decltype(t)>(t).__VA_ARGS__; }

static_assert(refuses<search::Ledger>(CALL(find(0))));
static_assert(refuses<pipeline::PlanResult>(CALL(best())));
static_assert(refuses<algorithms::Selection>(CALL(choice(Collective::allreduce, 0))));
static_assert(refuses<algorithms::Selection>(CALL(choices())));
static_assert(refuses<MappedFile>(CALL(content())));
static_assert(refuses<MeshShape>(CALL(axes())));
static_assert(refuses<Mesh>(CALL(comm())));
static_assert(refuses<Mesh>(CALL(shape())));
static_assert(refuses<Mesh>(CALL(operator[]("data"))));
static_assert(refuses<search::Space>(CALL(parameters())));
static_assert(refuses<search::Space>(CALL(starts())));
static_assert(refuses<search::Configuration>(CALL(values())));
static_assert(refuses<Checkpoint>(CALL(index())));
static_assert(refuses<Checkpoint>(CALL(directory())));
static_assert(refuses<SafetensorsFile>(CALL(bytes())));
static_assert(refuses<SafetensorsFile>(CALL(metadata())));
static_assert(refuses<SafetensorsFile>(CALL(spec("weight"))));

template <class T, class Argument, class... Others>
constexpr bool refuses_argument = std::constructible_from<T, Argument&, Others...> && !std::constructible_from<T, Argument, Others...>;

static_assert(refuses_argument<search::Configuration, search::Space, std::vector<double>>);
static_assert(refuses_argument<layer_parallel::Mgrit, Communicator, layer_parallel::LevelPlan, layer_parallel::MgritOptions>);
static_assert(refuses_argument<layer_parallel::Newton, Communicator, layer_parallel::LevelPlan, layer_parallel::NewtonOptions>);
static_assert(refuses_argument<Reducer, Communicator, std::vector<TensorSpec>, ReducerOptions>);
static_assert(refuses_argument<mpi::RpcClient, Communicator>);

template <class T>
concept is_taken = requires(T&& dataset) { to_torch(std::forward<T>(dataset)); };
static_assert(is_taken<TensorDataset&> && !is_taken<TensorDataset>);

}  // namespace
