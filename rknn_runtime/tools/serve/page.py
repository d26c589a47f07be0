"""The page, one file that loads no others: the image, the objects drawn over it, a panel."""

from __future__ import annotations

__all__ = ["PAGE"]

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>rknn-runtime</title><style>
body{margin:0;background:#111;color:#ddd;font:14px/1.5 system-ui,sans-serif}
body{display:flex;flex-wrap:wrap}
#view{position:relative;flex:1 1 640px;align-self:flex-start}#view img{width:100%;display:block}
canvas{position:absolute;inset:0;width:100%;height:100%}
aside{flex:0 0 19em;padding:1em}td{padding:0 .8em 0 0}a{color:#8cf}#state{font-weight:bold}
</style></head><body>
<div id="view"><img id="image" alt="live image"><canvas id="over"></canvas></div>
<aside><p id="state">connecting</p><table id="status"></table>
<p><a href="#" id="snap">snapshot</a>
<label><input type="checkbox" id="boxes" checked> objects</label></p>
<table id="found"></table></aside>
<script>
"use strict";
const token = new URLSearchParams(location.search).get("token");
const url = (path) => token ? path + "?token=" + encodeURIComponent(token) : path;
const $ = (id) => document.getElementById(id);
const image = $("image"), over = $("over"), pen = over.getContext("2d");
const BROWSER_DRAWS = BROWSER_DRAWS_HERE;
const SKELETON = [[15,13],[13,11],[16,14],[14,12],[11,12],[5,11],[6,12],[5,6],[5,7],[6,8],[7,9],
  [8,10],[1,2],[0,1],[0,2],[1,3],[2,4],[3,5],[4,6]];
const color = (id) => "hsl(" + (id * 137.5) % 360 + " 90% 60%)";
const name = (one) => one.label === undefined ? "class " + one.class_id : one.label;
function drawMask(one) {
  const [height, width] = one.mask.size, data = pen.createImageData(width, height);
  const [r, g, b] = [(one.class_id * 97) % 200 + 55, (one.class_id * 57) % 200 + 55, 200];
  let at = 0, on = false;
  for (const count of one.mask.counts) {
    for (let i = at; on && i < at + count; i++) {
      const place = 4 * ((i % height) * width + Math.floor(i / height));
      data.data.set([r, g, b, 110], place);
    }
    at += count; on = !on;
  }
  const layer = new OffscreenCanvas(width, height);
  layer.getContext("2d").putImageData(data, 0, 0);
  pen.drawImage(layer, 0, 0);
}
function drawPoints(one) {
  const seen = (i) => i < one.keypoints.length && one.keypoints[i][2] > 0.5;
  if (one.keypoints.length === 17) for (const [a, b] of SKELETON) if (seen(a) && seen(b)) {
    pen.beginPath(); pen.moveTo(one.keypoints[a][0], one.keypoints[a][1]);
    pen.lineTo(one.keypoints[b][0], one.keypoints[b][1]); pen.stroke();
  }
  one.keypoints.forEach((point, i) => {
    if (seen(i)) pen.fillRect(point[0] - 2, point[1] - 2, 5, 5);
  });
}
function draw(frame) {
  over.width = frame.width; over.height = frame.height;
  pen.lineWidth = Math.max(2, frame.width / 400);
  pen.font = Math.max(12, frame.width / 50) + "px sans-serif"; pen.textBaseline = "bottom";
  if (!$("boxes").checked || !BROWSER_DRAWS) return;
  for (const one of frame.detections) {
    pen.strokeStyle = pen.fillStyle = color(one.class_id);
    if (one.mask) drawMask(one);
    const corners = one.xyxyxyxy;
    pen.beginPath();
    if (corners) corners.forEach((p, i) => i ? pen.lineTo(p[0], p[1]) : pen.moveTo(p[0], p[1]));
    else pen.rect(one.xyxy[0], one.xyxy[1], one.xyxy[2] - one.xyxy[0], one.xyxy[3] - one.xyxy[1]);
    pen.closePath(); pen.stroke();
    if (one.keypoints) drawPoints(one);
    pen.fillText(name(one) + " " + Math.round(100 * one.confidence) + "%", one.xyxy[0],
      Math.max(one.xyxy[1] - 2, 14));
  }
}
function rows(table, pairs) {
  table.replaceChildren(...pairs.map((pair) => {
    const row = document.createElement("tr");
    row.append(...pair.map((text) => {
      const cell = document.createElement("td"); cell.textContent = text; return cell; }));
    return row;
  }));
}
function connect() {
  image.src = url("stream");
  const events = new EventSource(url("events"));
  events.onopen = () => { $("state").textContent = "live"; };
  events.onmessage = (event) => {
    const frame = JSON.parse(event.data); draw(frame);
    rows($("found"),
      frame.detections.map((one) => [name(one), Math.round(100 * one.confidence) + " %"]));
    document.body.dataset.frames = frame.number;
    document.body.dataset.objects = frame.detections.length;
  };
  events.addEventListener("status", (event) => {
    const listed = (value) => typeof value !== "object" ? value :
      Object.entries(value).map((pair) => pair.join(" ")).join(", ");
    const status = Object.entries(JSON.parse(event.data));
    rows($("status"), status.map(([key, value]) => [key, listed(value)]));
  });
  events.onerror = () => {
    events.close(); $("state").textContent = "lost, trying again"; setTimeout(connect, 1000); };
}
$("snap").onclick = () => { window.open(url("snapshot.jpg")); return false; };
connect();
</script></body></html>
"""
