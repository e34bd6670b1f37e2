// Sessions of GradBench: what an eval asks, and answers in the form that it compares. That the numbers themselves are
// right is the matter of adbench_test.cpp.
#include "bench/adbench/gradbench.h"
#include "bench/adbench/problem.h"
#include "tests/adbench/made.h"

#include <gtest/gtest.h>

namespace adbench {
namespace {

using Json = nlohmann::json;

const GradBench& tool() {
  static const GradBench interpreted("interpreter");
  return interpreted;
}

Json asked(const std::string& module, const std::string& function, const Json& input) {
  return tool().answer({{"id", 7}, {"kind", "evaluate"}, {"module", module}, {"function", function}, {"input", input}});
}

Json output_of(const std::string& module, const std::string& function, const Json& input) {
  const Json answer = asked(module, function, input);
  EXPECT_EQ(answer["id"], 7);
  EXPECT_EQ(answer["success"], true) << answer;
  return answer["output"];
}

std::string error_of(const std::string& module, const std::string& function, const Json& input) {
  const Json answer = asked(module, function, input);
  EXPECT_EQ(answer["success"], false) << answer;
  return answer["error"];
}

Json rows(const Numbers& numbers, std::size_t length) {
  Json all = Json::array();
  for (std::size_t at = 0; at < numbers.size(); at += length)
    all.push_back(Numbers(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                          numbers.begin() + static_cast<std::ptrdiff_t>(at + length)));
  return all;
}

Result result_of(const auto& data, auto... more) {
  const auto problem = make_problem(data, place_of("interpreter"), more...);
  problem->objective(), problem->jacobian();
  return problem->result();
}

TEST(GradBench, AnswersWhatIsNoQuestionByItsNumber) {
  EXPECT_EQ(tool().answer({{"id", 0}, {"kind", "start"}, {"eval", "gmm"}})["tool"], "loopgrad");
  EXPECT_EQ(tool().answer({{"id", 3}, {"kind", "analysis"}, {"of", 2}, {"valid", true}}), Json({{"id", 3}}));
  EXPECT_EQ(tool().answer({{"id", 4}, {"kind", "of a later version"}}), Json({{"id", 4}}));
  for (const char* module : {"hello", "gmm", "ba", "ht", "lstm"})
    EXPECT_EQ(tool().answer({{"id", 1}, {"kind", "define"}, {"module", module}})["success"], true);
  const Json unknown = tool().answer({{"id", 1}, {"kind", "define"}, {"module", "kmeans"}});
  EXPECT_EQ(unknown["success"], false);
  EXPECT_EQ(unknown["error"], "there is no module 'kmeans'");
}

TEST(GradBench, Hello) {
  EXPECT_EQ(output_of("hello", "square", 4.0), 16.0);
  EXPECT_EQ(output_of("hello", "double", 16.0), 32.0);
}

TEST(GradBench, EachRunIsTimed) {
  const Json answer = asked("gmm", "objective",
                            {{"d", 1},
                             {"k", 1},
                             {"n", 1},
                             {"alpha", {0.1}},
                             {"mu", {{0.2}}},
                             {"q", {{0.3}}},
                             {"l", {Json::array()}},
                             {"x", {{0.4}}},
                             {"gamma", 1.0},
                             {"m", 0},
                             {"min_runs", 3},
                             {"min_seconds", 0}});
  ASSERT_EQ(answer["timings"].size(), 4u) << answer;
  EXPECT_EQ(answer["timings"][0]["name"], "prepare");
  EXPECT_EQ(answer["timings"][3]["name"], "evaluate");
  EXPECT_GT(answer["timings"][3]["nanoseconds"].get<std::int64_t>(), 0);
}

TEST(GradBench, MixtureOfGaussians) {
  Gmm g = read_gmm(made("gmm_d3_K4.txt", {.points = 7}));
  g.gamma = 1.3, g.m = 2;
  Json q = Json::array(), l = Json::array();
  for (const Json& row : rows(g.icf, 6)) {
    q.push_back({row[0], row[1], row[2]});
    l.push_back({row[3], row[4], row[5]});
  }
  Json input = {{"d", 3},
                {"k", 4},
                {"n", 7},
                {"alpha", g.alphas},
                {"mu", rows(g.means, 3)},
                {"q", q},
                {"l", l},
                {"x", rows(g.x, 3)},
                {"gamma", 1.3},
                {"m", 2}};
  const Result expected = result_of(g, Prior::GradBench);
  EXPECT_EQ(output_of("gmm", "objective", input), expected.objective[0]);
  const Json jacobian = output_of("gmm", "jacobian", input);
  EXPECT_EQ(jacobian.size(), 4u);
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_EQ(jacobian["alpha"][k], expected.jacobian[k]);
    for (std::size_t j = 0; j < 3; ++j) {
      EXPECT_EQ(jacobian["mu"][k][j], expected.jacobian[4 + 3 * k + j]);
      EXPECT_EQ(jacobian["q"][k][j], expected.jacobian[16 + 6 * k + j]);
      EXPECT_EQ(jacobian["l"][k][j], expected.jacobian[16 + 6 * k + 3 + j]);
    }
  }
  input["l"][2] = {0.5};
  EXPECT_EQ(error_of("gmm", "objective", input), "the rows of a matrix differ in length");
  input["l"] = {{0.5, 0.5, 0.5}};
  EXPECT_EQ(error_of("gmm", "objective", input), "'l' has 3 numbers where 12 are expected");
  input.erase("l");
  EXPECT_NE(error_of("gmm", "objective", input).find("'l'"), std::string::npos);
  EXPECT_EQ(error_of("gmm", "hessian", input), "module 'gmm' has no function 'hessian'");
}

TEST(GradBench, BundleAdjustmentTellsTheFirstObservationForAll) {
  const Ba b = read_ba(made("ba1_n3_m5_p11.txt", {}));
  Json input = {{"n", 3},
                {"m", 5},
                {"p", 11},
                {"cam", Numbers(b.cameras.begin(), b.cameras.begin() + 11)},
                {"x", Numbers(b.points.begin(), b.points.begin() + 3)},
                {"w", b.weights[0]},
                {"feat", Numbers(b.features.begin(), b.features.begin() + 2)}};
  const Result expected = result_of(b);
  const Json objective = output_of("ba", "objective", input);
  EXPECT_EQ(objective["reproj_error"],
            Json({{"elements", {expected.objective[0], expected.objective[1]}}, {"repeated", 11}}));
  EXPECT_EQ(objective["w_err"], Json({{"element", expected.objective.back()}, {"repeated", 11}}));
  const Json jacobian = output_of("ba", "jacobian", input);
  for (const char* part : {"rows", "cols", "vals"}) ASSERT_EQ(jacobian[part].size(), 31u) << part;
  for (std::size_t k = 0; k < 30; ++k) EXPECT_EQ(jacobian["vals"][k], expected.jacobian[k]);
  EXPECT_EQ(jacobian["vals"][30], expected.jacobian.back());
  EXPECT_EQ(jacobian["rows"][2], 30);
  EXPECT_EQ(jacobian["rows"][30], 31 * 11);
  EXPECT_EQ(jacobian["cols"][11], 33);       // the first point, after three cameras
  EXPECT_EQ(jacobian["cols"][14], 33 + 15);  // the first weight, after five points
  EXPECT_EQ(jacobian["cols"][30], 33 + 15 + 11 - 1);
  input["p"] = 9;
  EXPECT_EQ(error_of("ba", "objective", input), "a camera, a point and ten observations are expected");
}

Json homogeneous(const Numbers& maps) {
  Json all = Json::array();
  for (const Json& map : rows(maps, 12)) {
    Json matrix = rows(map.get<Numbers>(), 4);
    matrix.push_back({0, 0, 0, 1});
    all.push_back(matrix);
  }
  return all;
}

TEST(GradBench, HandTracking) {
  for (const bool complicated : {false, true}) {
    const Hand h = read_hand(made("hand1_t26_c5.txt", {.vertices = 40, .complicated = complicated}), complicated);
    Json positions = rows(h.base_positions, 3), triangles = Json::array();
    for (Json& position : positions) position.push_back(1.0);
    for (std::size_t t = 0; t < h.triangles.size(); t += 3)
      triangles.push_back({h.triangles[t], h.triangles[t + 1], h.triangles[t + 2]});
    const auto bones = static_cast<std::size_t>(h.bones());
    Json input = {{"theta", h.theta},
                  {"us", rows(h.us, 2)},
                  {"data",
                   {{"correspondences", h.correspondences},
                    {"points", rows(h.points, 3)},
                    {"model",
                     {{"bone_count", bones},
                      {"bone_names", h.bone_names},
                      {"parents", h.parents},
                      {"base_relatives", homogeneous(h.base_relatives)},
                      {"inverse_base_absolutes", homogeneous(h.inverse_absolutes)},
                      {"base_positions", positions},
                      {"weights", rows(h.weights, bones)},
                      {"triangles", triangles},
                      {"is_mirrored", h.mirrored}}}}}};
    const Result expected = result_of(h);
    EXPECT_EQ(output_of("ht", "objective", input), Json(expected.objective));
    EXPECT_EQ(output_of("ht", "jacobian", input), rows(expected.jacobian, complicated ? 28 : 26));
    Json sheared = input;
    sheared["data"]["model"]["base_relatives"][1][3][0] = 0.5;
    EXPECT_EQ(error_of("ht", "objective", sheared), "the last row of a bone's matrix is not 0 0 0 1");
    input["data"]["correspondences"][0] = 4000;
    EXPECT_EQ(error_of("ht", "objective", input), "hand: a point belongs to what is not there");
  }
}

TEST(GradBench, Lstm) {
  const Lstm l = read_lstm(made("lstm_l2_c5.txt", {}));
  const auto bits = static_cast<std::size_t>(l.b);
  Json input = {{"main_params", rows(l.main, 4 * bits)},
                {"extra_params", rows(l.extra, bits)},
                {"state", rows(l.state, bits)},
                {"sequence", rows(l.sequence, bits)}};
  const Result expected = result_of(l);
  EXPECT_EQ(output_of("lstm", "objective", input), expected.objective[0]);
  EXPECT_EQ(output_of("lstm", "jacobian", input), Json(expected.jacobian));
  input["state"].erase(0);
  EXPECT_NE(error_of("lstm", "jacobian", input).find("'state' has"), std::string::npos);
}

}  // namespace
}  // namespace adbench
