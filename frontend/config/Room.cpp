//===- Room.cpp - Ways to make room that a job chooses --------------------===//

#include "frontend/config/Room.h"
#include "frontend/config/Resolver.h"

#include <charconv>

using namespace ciuic;
using namespace ciuic::config;

/// More blocks than any model has.
static constexpr int64_t kMostBlocks = 1'000'000;

/// A whole number of blocks in decimal digits, without a sign.
static bool parseNumber(std::string_view text, int64_t &number) {
  const char *end = text.data() + text.size();
  auto [rest, failure] = std::from_chars(text.data(), end, number);
  return failure == std::errc() && rest == end && text.front() != '-' &&
         number <= kMostBlocks;
}

/// Reads `name`, all blocks, or `name`:N; false where `text` is neither.
static bool parsePart(std::string_view text, std::string_view name,
                      int64_t &blocks) {
  if (!text.starts_with(name))
    return false;
  text.remove_prefix(name.size());
  if (text.empty()) {
    blocks = kAllBlocks;
    return true;
  }
  return text.front() == ':' && parseNumber(text.substr(1), blocks);
}

rt::Result<RecomputeSpec> config::parseRecompute(std::string_view text) {
  RecomputeSpec spec;
  if (text == "none" || parsePart(text, "block", spec.whole) ||
      parsePart(text, "selective", spec.selective))
    return spec;
  // After all blocks none is left for the second part.
  if (size_t comma = text.find(','); comma != std::string_view::npos)
    if (parsePart(text.substr(0, comma), "block", spec.whole) &&
        spec.whole != kAllBlocks &&
        parsePart(text.substr(comma + 1), "selective", spec.selective))
      return spec;
  return rt::Status::invalid(fmt::format(
      "found \"{}\", expected none, block, selective, block:N, selective:N, "
      "block:N,selective or block:N,selective:M, with N and M of 0 to {} "
      "blocks",
      text, kMostBlocks));
}

static std::string printPart(const char *name, int64_t blocks) {
  return blocks == kAllBlocks ? name : fmt::format("{}:{}", name, blocks);
}

std::string config::printRecompute(const RecomputeSpec &spec) {
  if (!spec.any())
    return "none";
  if (spec.selective == 0 || spec.whole == kAllBlocks)
    return printPart("block", spec.whole);
  if (spec.whole == 0)
    return printPart("selective", spec.selective);
  return printPart("block", spec.whole) + "," +
         printPart("selective", spec.selective);
}

rt::Result<int64_t> config::parseBlocks(std::string_view text) {
  int64_t blocks = 0;
  if (text == "none")
    return int64_t{0};
  if (text == "all")
    return kAllBlocks;
  if (!text.empty() && parseNumber(text, blocks))
    return blocks;
  return rt::Status::invalid(
      fmt::format("found \"{}\", expected none, all or a number of blocks from "
                  "0 to {}",
                  text, kMostBlocks));
}

std::string config::printBlocks(int64_t blocks) {
  return blocks == 0            ? "none"
         : blocks == kAllBlocks ? "all"
                                : fmt::format("{}", blocks);
}

/// DeepSpeed's file has no keys for these: the command line says them alone.
void Resolver::resolveRoom() {
  RoomSettings &room = out.job.room;
  auto add = [&](const char *option, std::string value, const char *what) {
    out.keys.push_back({option + 2, std::move(value), Source::CommandLine, 0,
                        option, what, /*acted=*/true});
  };
  if (over.recompute) {
    room.recompute = *over.recompute;
    add("--recompute", printRecompute(room.recompute),
        "blocks that compute their forward again in their backward");
  }
  if (over.keepGathered) {
    room.keepGathered = *over.keepGathered;
    add("--keep-gathered", printBlocks(room.keepGathered),
        "last blocks whose backward uses what their forward gathered");
  }
  if (over.offloadActivations) {
    room.offloadActivations = *over.offloadActivations;
    add("--offload-activations", printBlocks(room.offloadActivations),
        "first blocks whose kept values wait on the host");
  }
}
